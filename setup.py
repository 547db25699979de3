"""The rest of pyproject.toml: `configs/` stays at the top of the repository and is installed as `jaxrobust.configs`."""

from setuptools import find_packages, setup

setup(
  packages=[*find_packages(include=["jaxrobust", "jaxrobust.*"]), "jaxrobust.configs"],
  package_dir={"jaxrobust.configs": "configs"},
)
