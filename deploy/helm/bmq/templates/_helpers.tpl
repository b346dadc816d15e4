{{- define "bmq.name" -}}
{{- if contains "bmq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-bmq" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "bmq.selector" -}}
app.kubernetes.io/name: bmq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bmq.labels" -}}
{{ include "bmq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "bmq.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Pods at the install; with scaling as many as there are, so that an upgrade changes nothing that REST has ordered. */}}
{{- define "bmq.replicas" -}}
{{- $there := dict }}
{{- if .Values.scaling.enabled }}
{{- $there = lookup "apps/v1" "StatefulSet" .Release.Namespace (include "bmq.name" .) }}
{{- end }}
{{- if $there }}{{ int $there.spec.replicas }}{{ else }}{{ int .Values.replicas }}{{ end }}
{{- end }}

{{/* Pods that there may be: each has a name for clients outside. */}}
{{- define "bmq.replicasMax" -}}
{{- if .Values.scaling.enabled }}{{ int .Values.scaling.maxReplicas }}{{ else }}{{ int .Values.replicas }}{{ end }}
{{- end }}

{{- define "bmq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "bmq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* How HDFS is reached: of the nodes and of the Job that makes the first user. */}}
{{- define "bmq.hdfsEnv" -}}
{{- if .Values.hadoop.configMap }}
- {name: HADOOP_CONF_DIR, value: /etc/hadoop/conf}
{{- end }}
{{- if .Values.hadoop.user }}
- {name: BMQ_HDFS__USER, value: {{ .Values.hadoop.user | quote }}}
{{- end }}
{{- if .Values.kerberos.principal }}
- {name: BMQ_HDFS__PRINCIPAL, value: {{ .Values.kerberos.principal | quote }}}
- {name: BMQ_HDFS__KEYTAB, value: /etc/bmq/keytab/keytab}
- {name: KRB5_CONFIG, value: /etc/bmq/krb5/krb5.conf}
{{- end }}
{{- end }}

{{- define "bmq.hdfsMounts" -}}
- {name: scratch, mountPath: /tmp, subPath: tmp}
- {name: scratch, mountPath: /var/lib/bmq, subPath: bmq}
{{- if .Values.hadoop.configMap }}
- {name: hadoop, mountPath: /etc/hadoop/conf, readOnly: true}
{{- end }}
{{- if .Values.kerberos.principal }}
- {name: keytab, mountPath: /etc/bmq/keytab, readOnly: true}
- {name: krb5, mountPath: /etc/bmq/krb5, readOnly: true}
{{- end }}
{{- end }}

{{- define "bmq.hdfsVolumes" -}}
- name: scratch
  emptyDir: {}
{{- if .Values.hadoop.configMap }}
- name: hadoop
  configMap: {name: {{ .Values.hadoop.configMap | quote }}}
{{- end }}
{{- if .Values.kerberos.principal }}
- name: keytab
  secret: {secretName: {{ .Values.kerberos.keytabSecret | quote }}, defaultMode: 0440}
- name: krb5
  configMap: {name: {{ .Values.kerberos.configMap | quote }}}
{{- end }}
{{- end }}
