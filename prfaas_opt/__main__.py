"""``python -m prfaas_opt``."""

from prfaas_opt.cli import main

main()
