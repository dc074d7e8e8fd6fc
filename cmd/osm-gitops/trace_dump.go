package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
)

// dumped reads a dump in place of clusters.
func (f *personFlags) dumped(hosts githost.Hosts) (trace.Clusters, error) {
	if f.kubeconfig != "" || f.context != "" || f.workerKubeconfig != "" {
		return trace.Clusters{}, misusef("--from FILE alone", "--from reads a file, and --kubeconfig, --context and --worker-cluster-kubeconfig a cluster")
	}
	file, err := os.Open(f.from)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from: %w", err)
	}
	defer file.Close()
	dump, err := trace.ReadDump(file)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from %s: %w", f.from, err)
	}
	return dump.Clusters(hosts), nil
}

// writeDump writes a new file that its owner alone may read.
func writeDump(ctx context.Context, from trace.Clusters, path string, stderr io.Writer) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--dump: %w: name a new file", err)
	}
	dumped, err := dumpInto(ctx, from, file, strings.HasSuffix(path, ".gz"))
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	for _, u := range dumped.Unread {
		fmt.Fprintf(stderr, "osm-gitops: warning: not in the dump: %s\n", u)
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d objects without credentials to %s\n", dumped.Objects, path)
	return nil
}

func dumpInto(ctx context.Context, from trace.Clusters, file io.Writer, packed bool) (*trace.Dumped, error) {
	if !packed {
		return from.Dump(ctx, file, time.Now())
	}
	pack := gzip.NewWriter(file)
	dumped, err := from.Dump(ctx, pack, time.Now())
	return dumped, errors.Join(err, pack.Close())
}
