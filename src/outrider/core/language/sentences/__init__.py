# SPDX-License-Identifier: Apache-2.0
"""What a whole sentence comes to: a stop, which nothing refuses; a plan; or a refusal."""
