"""What the adaptive policy decides, and the estimates it decides by."""
