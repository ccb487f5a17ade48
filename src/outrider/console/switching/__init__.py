# SPDX-License-Identifier: Apache-2.0
"""What may be switched from the page while the robot runs."""
