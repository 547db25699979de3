"""What is computed from predictions and accuracies: numpy in, numbers out, one file per question.

`corruptions` (mCE), `flips` (ImageNet-P), `outliers` (AUPR, AUROC), `calibration`, `stability` (NSD, curves,
frequency bias). Percentages are never used; accuracies and errors are fractions.
"""
