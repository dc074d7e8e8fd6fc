// Command image builds the images of osm-gitops for several platforms with ko's library, without a
// container runtime and without a registry, into a folder that is an OCI image layout:
//
//	image -o DIR -version v1.2.3 -commit 3f2a9c1... -created 2026-01-02T03:04:05Z [-platforms linux/amd64,linux/arm64]
//
// Run it in the root of the repository. It writes an SBOM in SPDX's format for each image to
// DIR.sbom. The image consists of the program and the package base, and of nothing from the
// machine, so equal sources make equal images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/ko/pkg/build"

	"github.com/osm-gitops/osm-gitops/tools/image/base"
)

// program is the import path of what is built.
const program = "github.com/osm-gitops/osm-gitops/cmd/osm-gitops"

// user is the default user of the process, the same as in deploy/controller.yaml.
const user = "65532:65532"

type options struct {
	out, version, commit string
	created              time.Time
	platforms            []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.out); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists already: remove it, because an image would be added to its content", o.out)
	}
	log.SetFlags(0) // ko's own
	builder, err := build.NewGo(ctx, ".", o.build()...)
	if err != nil {
		return err
	}
	path := build.StrictScheme + program
	if err := builder.IsSupportedReference(path); err != nil {
		return err
	}
	result, err := builder.Build(ctx, path)
	if err != nil {
		return err
	}
	if err := save(result, o.out); err != nil {
		return fmt.Errorf("writing the layout %s: %w", o.out, err)
	}
	digest, err := result.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, digest)
	return nil
}

// save writes what was built into a new layout. ko's own publisher takes the folder for the name
// of a repository, which no folder with a capital in its name is.
func save(result build.Result, folder string) error {
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	switch built := result.(type) {
	case v1.ImageIndex:
		return to.AppendIndex(built)
	case v1.Image: // of one platform
		return to.AppendImage(built)
	}
	return fmt.Errorf("ko made a %T, which is neither an image nor an index", result)
}

func parse(args []string) (options, error) {
	var o options
	var created, platforms string
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&o.out, "o", "", "folder to write, which must not exist")
	fs.StringVar(&o.version, "version", "", "version to stamp")
	fs.StringVar(&o.commit, "commit", "", "commit to stamp")
	fs.StringVar(&created, "created", "", "time of the commit, RFC 3339: that of the build would make each image another")
	fs.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "comma list")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for name, value := range map[string]string{"o": o.out, "version": o.version, "commit": o.commit, "created": created} {
		if value == "" {
			return o, fmt.Errorf("-%s is required", name)
		}
	}
	var err error
	if o.created, err = time.Parse(time.RFC3339, created); err != nil {
		return o, fmt.Errorf("-created: %w", err)
	}
	o.platforms = strings.Split(platforms, ",")
	return o, nil
}

// build are ko's options. The program is built as "make build" does.
func (o options) build() []build.Option {
	created := v1.Time{Time: o.created}
	out := []build.Option{
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			index, err := base.Index(o.platforms, o.created)
			if err != nil {
				return nil, nil, err
			}
			ref, err := name.ParseReference(base.Name)
			return ref, index, err
		}),
		build.WithPlatforms(o.platforms...),
		build.WithTrimpath(true),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithDefaultFlags([]string{"-buildvcs=false"}),
		build.WithLdflags([]string{"-s", "-w", "-X", "main.version=" + o.version, "-X", "main.commit=" + o.commit}),
		build.WithCreationTime(created),
		build.WithKoDataCreationTime(created),
		build.WithUser(user),
		build.WithSPDX(o.version),
		build.WithSBOMDir(o.out + ".sbom"),
	}
	for key, value := range map[string]string{
		"org.opencontainers.image.title":    "osm-gitops",
		"org.opencontainers.image.version":  o.version,
		"org.opencontainers.image.revision": o.commit,
		"org.opencontainers.image.source":   "https://github.com/osm-gitops/osm-gitops",
		"org.opencontainers.image.created":  o.created.Format(time.RFC3339),
	} {
		out = append(out, build.WithLabel(key, value), build.WithAnnotation(key, value))
	}
	return out
}
