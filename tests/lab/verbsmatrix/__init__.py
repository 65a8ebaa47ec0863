# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Does every unmodified program do the same, bare and stacked?"""
