#!/bin/sh
# Start the node of this pod. What differs from pod to pod comes from the pod's name; the rest is in variables of the StatefulSet.
set -eu
ordinal=${POD_NAME##*-}
case "$ordinal" in
'' | *[!0-9]*)
    echo "bmq: the pod's name $POD_NAME does not end with a number" >&2
    exit 1
    ;;
esac

# {pod} and {node} in what operators wrote. $1: the text
filled() {
    printf '%s' "$1" | sed -e "s/{pod}/$POD_NAME/g" -e "s/{node}/${HOST_IP:-}/g"
}

host=$POD_NAME.$POD_DOMAIN
listeners=INSIDE://0.0.0.0:9092
advertised=INSIDE://$host:9092
protocols=INSIDE:$INSIDE_PROTOCOL
if [ -n "${OUTSIDE_HOST:-}" ]; then
    listeners=$listeners,OUTSIDE://0.0.0.0:9094
    advertised=$advertised,OUTSIDE://$(filled "$OUTSIDE_HOST"):$((OUTSIDE_PORT + ordinal * OUTSIDE_PORT_STEP))
    protocols=$protocols,OUTSIDE:$OUTSIDE_PROTOCOL
fi
kafka="\"listeners\": \"$listeners\", \"advertised.listeners\": \"$advertised\", \"listener.security.protocol.map\": \"$protocols\""
[ -z "${SASL_MECHANISMS:-}" ] || kafka="$kafka, \"sasl.enabled.mechanisms\": \"$SASL_MECHANISMS\""
[ -z "${KEYSTORE:-}" ] || kafka="$kafka, \"ssl.keystore.location\": \"$KEYSTORE\""

export BMQ_KAFKA="{$kafka}"
export BMQ_NODE_ID=$((FIRST_NODE_ID + ordinal))
export BMQ_ADVERTISED="$host:9092"
export BMQ_INTERNAL=0.0.0.0:9093 BMQ_INTERNAL_ADVERTISED="$host:9093"
export BMQ_REST=0.0.0.0:8080 BMQ_REST_ADVERTISED="$host:8080"
if [ -n "${INTERNODE_CERTIFICATE:-}" ]; then
    BMQ_INTERNODE_SECURITY__CERTIFICATE_FILE=$(filled "$INTERNODE_CERTIFICATE")
    export BMQ_INTERNODE_SECURITY__CERTIFICATE_FILE
fi
exec bmq node --config /etc/bmq/settings/bmq.toml
