"""Known vulnerabilities of the installed packages, by pip-audit: a finding fails, a service out of reach is said.

    python .ci/audit_dependencies.py

Exit code 1 for any finding.  Where the service does not answer, or knows none of the packages (as behind a mirror that
carries no advisories), nothing was audited: that is said, and no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

COMMAND = [sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off", "--format", "json"]
UNREACHABLE = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries exceeded", "ServiceError", "HTTPError")


def main() -> int:
    """Audit, tell, and give the exit code."""
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    try:
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        if any(word in done.stderr for word in UNREACHABLE):
            print("pip-audit: the service cannot be reached; NOTHING was audited")
            return 0
        print(done.stderr, file=sys.stderr)
        return 1
    found = [(each["name"], each["version"], bad["id"]) for each in dependencies for bad in each.get("vulns", [])]
    for name, version, identity in found:
        print(f"pip-audit: {name} {version}: {identity}", file=sys.stderr)
    if found:
        return 1
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return 1
    audited = sum("vulns" in each for each in dependencies)
    if not audited:
        print(f"pip-audit: the service knows none of {len(dependencies)} packages; NOTHING was audited")
    else:
        print(f"pip-audit: nothing known against {audited} of {len(dependencies)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
