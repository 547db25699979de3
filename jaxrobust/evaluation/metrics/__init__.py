"""What is computed from predictions and accuracies: numpy in, numbers out, one file per question.

`accuracy` (of subsets of classes), `corruptions` (mCE), `flips` (ImageNet-P), `outliers` (AUPR, AUROC),
`calibration`, `stability` (NSD, frequency bias). Accuracies and errors are fractions, never percentages.
"""
