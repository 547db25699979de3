"""Certificates: what no attack can do, per example.

Imports core, models and attacks (it may wrap schedules). `certifier.py` is the way in.
"""
