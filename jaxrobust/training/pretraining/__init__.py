"""Self-supervised objectives, the networks they put around a classifier, and how it is taken out again."""
