"""Pictures from devices, files, streams, topics and the Go2."""
