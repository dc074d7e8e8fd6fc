package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/schema"
)

// schemaFlags are the flags of `osm-gitops schema`.
type schemaFlags struct {
	all    bool
	output string
}

func newSchemaCommand() *cobra.Command {
	var flags schemaFlags
	cmd := &cobra.Command{
		Use:   "schema [NAME] | schema --all -o FOLDER",
		Short: "print the JSON Schemas of the files in a repository, for editors",
		Long: `Print the JSON Schema of one kind of file, or write all of them into a folder, for
editors that check, complete and explain YAML with it. Every field has a
description, and the description of files and templates lists the available variables and
functions.

` + schemaList() + `
The schemas use draft 07, which yaml-language-server supports best.`,
		Example: "  osm-gitops schema > repository.schema.json\n  osm-gitops schema --all -o .schemas",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return cli.Misusef("osm-gitops schema --all -o FOLDER writes all of them", "schema prints one at a time, found %d names", len(args))
			case len(args) == 1 && flags.all:
				return cli.Misusef("osm-gitops schema --all -o FOLDER", "--all and the name %q exclude each other", args[0])
			case flags.all && flags.output == "":
				return cli.Misusef("osm-gitops schema --all -o FOLDER", "--all needs a folder to write to")
			case !flags.all && flags.output != "":
				return cli.Misusef("osm-gitops schema NAME > FILE; or osm-gitops schema --all -o FOLDER", "-o without --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.all {
				return writeSchemas(flags.output, cmd.ErrOrStderr())
			}
			name := schema.Repository
			if len(args) > 0 {
				name = args[0]
			}
			text, ok := schema.Named(name)
			if !ok {
				return cli.Misusef("one of "+schema.Names(), "unknown schema %q", name)
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&flags.all, "all", false, "write every schema into the folder of -o")
	cmd.Flags().StringVarP(&flags.output, "output", "o", "", "`FOLDER` to write to; files of the same names are replaced")
	return cmd
}

// schemaList lists the names of the schemas.
func schemaList() string {
	var b strings.Builder
	for _, s := range schema.All() {
		name := s.Name
		if name == schema.Repository {
			name += ", the default"
		}
		fmt.Fprintf(&b, "  %-24s %s\n", name, s.Title)
	}
	return b.String()
}

func writeSchemas(dir string, stderr io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	for _, s := range schema.All() {
		text, _ := schema.Named(s.Name)
		path := filepath.Join(dir, s.File)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("writing a schema: %w", err)
		}
		fmt.Fprintf(stderr, "osm-gitops: wrote %s: %s\n", path, s.Title)
	}
	return nil
}
