#!/usr/bin/env bash
# One training job on GKE as a JobSet, on TPU slices or GPU nodes.
#   bash launch/gke.sh [--dry_run] tpu IMAGE HOSTS TOPOLOGY ACCELERATOR train --config … --out=gs://bucket/run
#   bash launch/gke.sh --dry_run gpu registry/jaxrobust:latest 4 8 nvidia-h100-80gb train --config …
# TOPOLOGY is the slice's ("4x4") for TPUs, the number of GPUs per host for GPUs. --dry_run prints the manifest.
# A pod that ends with code 75 (asked to stop) is started again and continues.
set -euo pipefail
dry=
if [ "${1:-}" = --dry_run ]; then dry=1; shift; fi
[ $# -ge 6 ] || { echo "usage: bash launch/gke.sh [--dry_run] tpu|gpu IMAGE HOSTS TOPOLOGY ACCELERATOR train …" >&2; exit 2; }
kind=$1 image=$2 hosts=$3 topology=$4 accelerator=$5
shift 5
name=${JAXROBUST_JOB:-jaxrobust}
arguments=$(printf '"%s", ' "$@")
case $kind in
  tpu) selector="cloud.google.com/gke-tpu-accelerator: $accelerator
              cloud.google.com/gke-tpu-topology: $topology" limits="google.com/tpu: 4" ;;
  gpu) selector="cloud.google.com/gke-accelerator: $accelerator" limits="nvidia.com/gpu: $topology" ;;
  *) echo "the first argument is tpu or gpu, not $kind" >&2; exit 2 ;;
esac
manifest="apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: $name
spec:
  failurePolicy:
    maxRestarts: 100
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: $hosts
        completions: $hosts
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 120
            nodeSelector:
              $selector
            containers:
            - name: train
              image: $image
              command: [\"jaxrobust\", $arguments\"--distributed\", \"--processes=$hosts\"]
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
                  $limits"
if [ -n "$dry" ]; then echo "$manifest"; else echo "$manifest" | kubectl apply -f -; fi
