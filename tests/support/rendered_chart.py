"""What is wrong with the manifests of the Helm chart beyond their schemas: names that lead nowhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

Manifest = Mapping[str, Any]
PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def only(manifests: Iterable[Manifest], kind: str) -> Manifest:
    (found,) = of_kind(manifests, kind)
    return found


def container_of(manifest: Manifest) -> Manifest:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, Mapping)
    return container


def plain_environment(manifests: Iterable[Manifest], pod: str, namespace: str, host_ip: str) -> dict[str, str]:
    """The variables that a pod of the StatefulSet gets, with those of Kubernetes filled in."""
    fields = {"metadata.name": pod, "metadata.namespace": namespace, "status.hostIP": host_ip}
    found: dict[str, str] = {}
    for variable in container_of(only(manifests, "StatefulSet"))["env"]:
        if "value" in variable:
            value = str(variable["value"])
            for name, known in found.items():
                value = value.replace(f"$({name})", known)
        else:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        found[variable["name"]] = value
    return found


def problems(manifests: Iterable[Manifest]) -> Iterator[str]:
    """One line each."""
    manifests = list(manifests)
    pods = only(manifests, "StatefulSet")["spec"]["template"]
    labels, container = pods["metadata"]["labels"], container_of(only(manifests, "StatefulSet"))
    ports = {port["name"] for port in container["ports"]}
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"{name[0]} {name[1]} is there twice"
    for service in of_kind(manifests, "Service"):
        what = f"Service {service['metadata']['name']}"
        for name, value in service["spec"]["selector"].items():
            if name != "statefulset.kubernetes.io/pod-name" and labels.get(name) != value:
                yield f"{what} selects {name}={value}, which no pod has"
        for port in service["spec"]["ports"]:
            if port["targetPort"] not in ports:
                yield f"{what} leads to the port {port['targetPort']}, which no pod has"
    if only(manifests, "StatefulSet")["spec"]["serviceName"] not in {name for kind, name in names if kind == "Service"}:
        yield "the StatefulSet's service is not there"
    for policy in of_kind(manifests, "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            for port in rule["ports"]:
                if port["port"] not in ports:
                    yield f"the network policy names the port {port['port']}, which no pod has"
    for probe in PROBES:
        if container[probe]["httpGet"]["port"] not in ports:
            yield f"{probe} asks a port that no pod has"
    for manifest in manifests:
        if manifest["kind"] in ("StatefulSet", "Job"):
            yield from _pod_problems(f"{manifest['kind']} {manifest['metadata']['name']}", manifest)


def _pod_problems(what: str, manifest: Manifest) -> Iterator[str]:
    container = container_of(manifest)
    volumes = [volume["name"] for volume in manifest["spec"]["template"]["spec"]["volumes"]]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    if sorted(volumes) != sorted(mounts):
        yield f"{what} has the volumes {sorted(volumes)} and mounts {sorted(mounts)}"
    places = [mount["mountPath"] for mount in container["volumeMounts"]]
    words = [*container.get("command", []), *container.get("args", [])]
    words += [str(variable["value"]) for variable in container["env"] if "value" in variable]
    for word in words:
        if word.startswith("/etc/") and not any(word == place or word.startswith(f"{place}/") for place in places):
            yield f"{what} names {word}, which is not mounted"
