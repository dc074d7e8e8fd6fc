package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Set by the linker: -ldflags "-X main.version=v1.2.3 -X main.commit=3f2a9c1".
// Without it they come from the module and from version control.
var version, commit string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version, the commit, and the versions of Go and of the rendering engine",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// versionText is what version and --version print.
func versionText() string {
	v, c := buildVersion()
	return fmt.Sprintf("osm-gitops %s\ncommit %s\n%s\nengine %s\n", v, c, runtime.Version(), render.EngineVersion)
}

// buildVersion returns the version and commit of this build, or "unknown".
func buildVersion() (v, c string) {
	v, c = version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		v = cmp.Or(v, info.Main.Version)
		for _, s := range info.Settings {
			if c == "" && s.Key == "vcs.revision" {
				c = s.Value
			}
		}
	}
	return cmp.Or(v, "unknown"), cmp.Or(c, "unknown")
}
