"""The hunt: programs that nobody would write, drawn by a tool, until one shows a fault.
"""
