"""Navigation, safety, kills, memory, console and idle load, evaluated with the real parts."""
