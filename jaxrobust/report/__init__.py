"""Results for people: tables, plots and the leaderboard page.

Reads cell files only; nothing here computes a verdict. The page and the tables need plain dependencies, the plots
matplotlib (the extra "report").
"""
