// Command envtest downloads kube-apiserver, etcd and kubectl of one Kubernetes release, in the
// archive that envtest uses, and unpacks them. It verifies the archive's SHA-512 sum, and prints the
// folder of the programs. The sum is an argument: an index that was changed is of no use. It is a Go module of its own, because its library asks for a
// newer apimachinery than the product.
//
//	envtest -version v1.36.2 -sum SHA512 -dir FOLDER
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/store"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

func main() {
	version := flag.String("version", "", "Kubernetes version, such as v1.36.2")
	sum := flag.String("sum", "", "SHA-512 sum of the archive, hexadecimal")
	dir := flag.String("dir", "", "folder to unpack into, which must exist")
	index := flag.String("index", remote.DefaultIndexURL, "URL of the index of releases")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := download(logr.NewContext(ctx, logr.Discard()), *index, *version, *sum, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(1)
	}
	fmt.Println(folder)
}

func download(ctx context.Context, index, version, sum, dir string) (string, error) {
	if dir == "" || sum == "" {
		return "", errors.New("-dir and -sum are required")
	}
	spec, err := versions.FromExpr(strings.TrimPrefix(version, "v"))
	if err != nil {
		return "", fmt.Errorf("-version: %w", err)
	}
	concrete := spec.AsConcrete()
	if concrete == nil {
		return "", fmt.Errorf("-version %q is not one version: write it like v1.36.2", version)
	}
	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: index}
	platform := versions.PlatformItem{
		Platform: versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH},
		Hash:     &versions.Hash{Type: versions.SHA512HashType, Encoding: versions.HexHashEncoding, Value: sum},
	}
	archive, err := os.Create(filepath.Join(dir, "archive.tar.gz"))
	if err != nil {
		return "", err
	}
	defer os.Remove(archive.Name())
	defer archive.Close()
	if err := client.GetVersion(ctx, *concrete, platform, archive); err != nil {
		return "", err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	s := store.NewAt(dir)
	item := store.Item{Version: *concrete, Platform: platform.Platform}
	if err := s.Initialize(ctx); err != nil {
		return "", err
	}
	if err := s.Add(ctx, item, archive); err != nil {
		return "", err
	}
	return s.Path(item)
}
