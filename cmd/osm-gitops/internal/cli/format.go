package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// Formats is the value of a flag --output.
type Formats struct {
	names  []string
	chosen *string
}

// BindOutput binds --output, whose default is the first of the formats. A format that ends in
// "=" is the beginning of a value.
func BindOutput(fs *pflag.FlagSet, chosen *string, names ...string) {
	*chosen = names[0]
	fs.VarP(&Formats{names, chosen}, "output", "o", "what to print: "+strings.Join(names, ", "))
}

// Names are the formats.
func (f *Formats) Names() []string { return f.names }

// Set implements pflag.Value.
func (f *Formats) Set(value string) error {
	known := func(name string) bool {
		return name == value || strings.HasSuffix(name, "=") && strings.HasPrefix(value, name)
	}
	if !slices.ContainsFunc(f.names, known) {
		return Misusef("-o "+strings.Join(f.names, ", -o "), "unknown output %q", value)
	}
	*f.chosen = value
	return nil
}

func (f *Formats) String() string {
	if f.chosen == nil { // the zero value, with which pflag compares
		return ""
	}
	return *f.chosen
}

// Type implements pflag.Value.
func (f *Formats) Type() string { return "string" }

// Print prints a report as text, json or yaml.
func Print(out io.Writer, format string, report any, text func() string) error {
	if format != "text" {
		return PrintData(out, format, report)
	}
	_, err := io.WriteString(out, text())
	return err
}

// PrintData prints a value as json or yaml.
func PrintData(out io.Writer, format string, v any) error {
	if format == "yaml" {
		text, err := runnerlog.YAML(v)
		if err != nil {
			return fmt.Errorf("encoding YAML: %w", err)
		}
		_, err = out.Write(text)
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
