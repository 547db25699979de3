"""Objectives, weight perturbations, averages and forms of export: one technique or family of them per file."""
