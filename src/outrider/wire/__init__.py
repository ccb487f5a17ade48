"""The wire: strict frames over ZeroMQ, with CURVE keys beyond the loopback."""
