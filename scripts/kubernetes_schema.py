"""Writes tests/project/kubernetes-schema.json from a wheel of kubernetes-validate, which has Kubernetes' own schemas.

The package has 111 MB, and the files of deploy/kubernetes are of few kinds. So the checkout has what these refer to,
without descriptions. Take the wheel of release 1.37.0 by `pip download --no-deps`; its path is the one argument.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "tests" / "project" / "kubernetes-schema.json"
_RELEASE: Final = "v1.37.0-local-strict"
_KINDS: Final = {
    "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment", "v1 Secret": "io.k8s.api.core.v1.Secret",
    "v1 Service": "io.k8s.api.core.v1.Service",
    "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "batch/v1 CronJob": "io.k8s.api.batch.v1.CronJob", "v1 Pod": "io.k8s.api.core.v1.Pod",
    "v1 ConfigMap": "io.k8s.api.core.v1.ConfigMap", "rbac.authorization.k8s.io/v1 Role": "io.k8s.api.rbac.v1.Role",
    "rbac.authorization.k8s.io/v1 RoleBinding": "io.k8s.api.rbac.v1.RoleBinding",
}  # fmt: skip


def schema_of(definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions of our kinds, and of all that they refer to."""
    wanted, found = list(_KINDS.values()), {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _bare(definitions[name])
            wanted += re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(found[name]))
    kinds = {kind: {"$ref": f"#/$defs/{name}"} for kind, name in _KINDS.items()}
    return {"release": _RELEASE, "kinds": kinds, "$defs": dict(sorted(found.items()))}


def _bare(value: Any) -> Any:
    """Return the value without descriptions. A property may have that name, too; then it is no text."""
    if isinstance(value, list):
        return [_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if not (name == "description" and isinstance(one, str))}
    return {name: _bare(one) for name, one in kept.items() if not name.startswith("x-kubernetes")}


def main(wheel: str) -> int:
    """Write the file."""
    with zipfile.ZipFile(wheel) as archive:
        name = f"kubernetes_validate/kubernetes-json-schema/{_RELEASE}/_definitions.json"
        definitions = json.loads(archive.read(name))["$defs"]
    TARGET.write_text(json.dumps(schema_of(definitions), separators=(",", ":")) + "\n")
    print(f"wrote {TARGET.name}: {TARGET.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
