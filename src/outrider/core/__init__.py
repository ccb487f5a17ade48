"""Values, errors, ports and configuration: what every other package may import."""
