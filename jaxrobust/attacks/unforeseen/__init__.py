"""ImageNet-UA's core attacks: a threat that renders, and a line that makes it an attack, in a file each."""
