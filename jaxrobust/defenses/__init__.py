"""Defenses: `Classifier -> Classifier`, each with the view that an adaptive attack gets of it."""
