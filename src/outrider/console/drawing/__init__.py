# SPDX-License-Identifier: Apache-2.0
"""What the console draws for its viewers: the floor from above, and boxes on the camera's picture."""
