# SPDX-License-Identifier: Apache-2.0
"""What every composition needs: paths, links, ports, ends of processes, figures."""
