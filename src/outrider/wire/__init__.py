"""The wire: strict msgpack frames over ZeroMQ, with CURVE keys beyond the loopback."""
