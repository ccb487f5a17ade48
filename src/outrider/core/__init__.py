# SPDX-License-Identifier: Apache-2.0
"""Values, errors, ports and configuration: what every other package may import."""
