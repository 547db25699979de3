"""The NAS robustness data set, made here: cells trained or loaded, evaluated alike, written in the paper's layout.

`run` takes cells through training and the suite `nas-cell`, `readings` knows the two ways in which an accuracy under
attack is read, `dataset` writes the files.
"""
