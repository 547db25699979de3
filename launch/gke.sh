#!/usr/bin/env bash
# One training job on GKE as a JobSet, on TPU slices or GPU nodes.
#   bash launch/gke.sh [--dry_run] tpu IMAGE HOSTS TOPOLOGY ACCELERATOR train --config … --out=/shared/run
#   bash launch/gke.sh --dry_run gpu registry/jaxrobust:latest 4 8 nvidia-h100-80gb train --config … --out=/shared/run
# TOPOLOGY is the slice's ("4x4") for TPUs, the number of GPUs per host for GPUs. --dry_run prints the manifest.
# JAXROBUST_CHIPS is the number of TPU chips of a host (4), JAXROBUST_JOB the job's name (jaxrobust), JAXROBUST_CLAIM
# the claim of a volume that all hosts write (jaxrobust), mounted at /shared: Filestore's class standard-rwx, say.
# A pod that is asked to stop (code 75) or lost the others is started again and continues; bad input or a broken
# training (codes 2 to 5) ends the job.
set -euo pipefail
refuse() { echo "$1" >&2; exit 2; }
# A word in YAML's single quotes, in which nothing but the quote itself means anything.
quoted() { local quote="'"; echo "'${1//$quote/$quote$quote}'"; }
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
[ $# -ge 6 ] || refuse "usage: bash launch/gke.sh [--dry_run] tpu|gpu IMAGE HOSTS TOPOLOGY ACCELERATOR train …"
kind=$1 image=$2 hosts=$3 topology=$4 accelerator=$5
shift 5
name=${JAXROBUST_JOB:-jaxrobust} chips=${JAXROBUST_CHIPS:-4} claim=${JAXROBUST_CLAIM:-jaxrobust}
number='^[1-9][0-9]*$' shape='^[1-9][0-9]*(x[1-9][0-9]*)+$'
[[ $hosts =~ $number ]] || refuse "HOSTS is a number, not $hosts"
case $kind in
  tpu)
    [[ $chips =~ $number ]] || refuse "JAXROBUST_CHIPS is a number, not $chips"
    [[ $topology =~ $shape ]] || refuse "TOPOLOGY is the shape of a slice such as 4x4, not $topology"
    [ $((${topology//x/*})) -eq $((hosts * chips)) ] ||
      refuse "a $topology slice has $((${topology//x/*})) chips, but $hosts hosts with $chips chips each were asked for"
    selector="cloud.google.com/gke-tpu-accelerator: $(quoted "$accelerator")
              cloud.google.com/gke-tpu-topology: $(quoted "$topology")" limits="google.com/tpu: $chips" ;;
  gpu)
    [[ $topology =~ $number ]] || refuse "TOPOLOGY is the number of GPUs per host, not $topology"
    selector="cloud.google.com/gke-accelerator: $(quoted "$accelerator")" limits="nvidia.com/gpu: $topology" ;;
  *) refuse "the first argument is tpu or gpu, not $kind" ;;
esac
command=
for word in jaxrobust "$@" --distributed "--processes=$hosts"; do command+="
              - $(quoted "$word")"; done
manifest="apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: $name
spec:
  failurePolicy:
    maxRestarts: 100
    rules:
    - name: hopeless
      action: FailJobSet
      onJobFailureReasons: [PodFailurePolicy]
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: $hosts
        completions: $hosts
        backoffLimit: 0
        podFailurePolicy:
          rules:
          - action: FailJob
            onExitCodes:
              containerName: train
              operator: In
              values: [2, 3, 4, 5]
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 120
            nodeSelector:
              $selector
            containers:
            - name: train
              image: $(quoted "$image")
              command:$command
              env:
              - name: JAX_COORDINATOR_ADDRESS
                value: $name-workers-0-0.$name:8476
              - name: JAX_NUM_PROCESSES
                value: \"$hosts\"
              - name: JAX_PROCESS_ID
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
              ports:
              - containerPort: 8476
              resources:
                limits:
                  $limits
              volumeMounts:
              - name: shared
                mountPath: /shared
            volumes:
            - name: shared
              persistentVolumeClaim:
                claimName: $(quoted "$claim")"
if [ -n "$dry" ]; then echo "$manifest"; else echo "$manifest" | kubectl apply -f -; fi
