# SPDX-License-Identifier: Apache-2.0
"""The cloud's policies: what to verify, hint and abort. Estimators serve the edge too."""
