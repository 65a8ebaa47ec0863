# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wrong and right GID indexes between two lab hosts, each case run bare and stacked."""
