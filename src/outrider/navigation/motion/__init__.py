"""From verified text to bounded velocities."""
