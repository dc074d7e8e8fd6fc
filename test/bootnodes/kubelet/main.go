// Command kubelet is Kubernetes' own, built from its modules: what publishers serve
// to a rehearsed node. It is a Go module of its own for the same reason as
// test/controlplane, and has that one's versions and replace lines.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() { os.Exit(cli.Run(app.NewKubeletCommand(context.Background()))) }
