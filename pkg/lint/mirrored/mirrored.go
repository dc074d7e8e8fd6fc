package mirrored

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// newestKubelet is rendered if the file lists no kubelet by its URL.
const newestKubelet = "1.36.0"

// sandbox replaces the image from the controller's settings, which profiles do not name.
const sandbox = "settings.invalid/pause"

// Check returns a check that finds downloads of a profile that a site without Internet
// access has not mirrored: `osm-gitops lint --mirrors FILE`. It renders a profile for each
// provider that it supports, with the mirrored kubelets and without settings: with a mirror in
// --node-download-mirrors, nodes request the same files from there. If a profile supports some
// of the given providers, it is rendered only for those.
func Check(mirrors Mirrors, file string, only []osm.CloudProvider) lint.ProfileCheck {
	kubelets := mirrors.KubeletVersions()
	if len(kubelets) == 0 {
		kubelets = []string{newestKubelet}
	}
	return func(ctx context.Context, doc profile.Document) []lint.Finding {
		c := mirrorCheck{mirrors: mirrors, file: file, doc: doc, where: map[string][]string{}, found: map[string]lint.Finding{}}
		engine := render.NewEngine()
		rendered := 0
		for _, kubelet := range kubelets {
			for _, provider := range selectProviders(doc, only) {
				if ctx.Err() != nil {
					return nil
				}
				in, err := sampleInput(doc, provider.Name, kubelet)
				if err != nil {
					c.addRenderError(err)
					continue
				}
				list, err := downloads.FindWithPlaceholders(engine, in)
				if err != nil {
					c.addRenderError(err)
					continue
				}
				rendered++
				c.checkDownloads(list, string(provider.Name)+", kubelet "+kubelet)
			}
		}
		return c.findings(rendered)
	}
}

// selectProviders returns the providers that a profile supports and that are in only, or all that
// it supports if none is.
func selectProviders(doc profile.Document, only []osm.CloudProvider) []osm.CloudProviderSpec {
	all := doc.Spec.SupportedCloudProviders
	some := slices.DeleteFunc(slices.Clone(all), func(p osm.CloudProviderSpec) bool { return !slices.Contains(only, p.Name) })
	if len(some) == 0 {
		return all
	}
	return some
}

// mirrorCheck compares the downloads of one profile with the file.
type mirrorCheck struct {
	mirrors Mirrors
	file    string
	doc     profile.Document
	order   []string
	found   map[string]lint.Finding
	where   map[string][]string // the combinations for which it holds
}

// addRenderError adds a finding that the downloads are unknown, because the profile does not
// render.
func (c *mirrorCheck) addRenderError(err error) {
	f := lint.Finding{
		Rule: lint.RuleNotMirrored, Severity: lint.SeverityError, Path: c.doc.Path, Line: c.doc.Line("spec"), Profile: c.doc.Name, Version: c.doc.Spec.Version,
		Message: "the downloads of nodes are unknown, because the profile does not render: " + err.Error(), Fix: "fix the rendering error first",
	}
	if invalid, ok := errors.AsType[*render.InvalidError](err); ok {
		f.Field = invalid.Field
		f.File = invalid.File
		f.Message = "the downloads of nodes are unknown, because the profile does not render: " + invalid.Err.Error()
		f.Line = cmp.Or(invalid.Line, f.Line) // a pool's fields have no line
	}
	c.add("\x00"+f.Message, f, "")
}

// checkDownloads adds a finding for each download that is not mirrored.
func (c *mirrorCheck) checkDownloads(list downloads.List, where string) {
	for _, item := range list.Items {
		why := c.mirrors.MissingReason(item)
		if why == "" || item.Name == sandbox {
			continue
		}
		for _, place := range item.Positions {
			f := lint.Finding{
				Rule: lint.RuleNotMirrored, Severity: lint.SeverityError, Path: cmp.Or(place.Path, c.doc.Path), Line: place.Line, Profile: c.doc.Name, Version: c.doc.Spec.Version,
				File: place.File, Message: nameWithoutQuery(item) + " " + why,
				Fix: fmt.Sprintf("mirror it and add it to %s, or remove it from the profile", c.file),
			}
			if item.Kind == downloads.KindUnresolved {
				f.Fix = "make it constant in the profile, or add to " + c.file + " a URL that ends with a slash and includes everything below it"
			}
			c.add(fmt.Sprintf("%s\x00%s\x00%s:%d", f.Message, f.File, f.Path, f.Line), f, where)
		}
	}
}

// nameWithoutQuery returns the text of an item without the query of a URL, which can contain
// tokens.
func nameWithoutQuery(item downloads.Item) string {
	text := item.String()
	if path, query, ok := strings.Cut(text, "?"); ok && query != "" && strings.Contains(path, "://") {
		return path + "?..."
	}
	return text
}

func (c *mirrorCheck) add(key string, f lint.Finding, where string) {
	if _, ok := c.found[key]; !ok {
		c.found[key] = f
		c.order = append(c.order, key)
	}
	if where != "" {
		c.where[key] = append(c.where[key], where)
	}
}

// findings adds the combinations to which each finding applies, unless it applies to all.
func (c *mirrorCheck) findings(rendered int) []lint.Finding {
	var out []lint.Finding
	for _, key := range c.order {
		f := c.found[key]
		const most = 3 // combinations that a line still holds
		if where := slices.Compact(c.where[key]); len(where) > 0 && len(where) < rendered {
			if n := len(where); n > most {
				where = append(where[:most:most], fmt.Sprintf("and %d more", n-most))
			}
			f.Where = strings.Join(where, "; ")
		}
		out = append(out, f)
	}
	return lint.SortAndCompact(out)
}

// sampleInput returns the input of rendering a profile for a pool of a provider.
func sampleInput(doc profile.Document, provider osm.CloudProvider, kubelet string) (render.Input, error) {
	c := matrix.New(doc)
	c.Provider(provider)
	c.Kubelet(kubelet)
	c.Settings.ExternalCloudProvider, c.Settings.PauseImage = true, sandbox
	in, err := c.Input()
	in.Pool.Namespace, in.Pool.Name = "default", "pool" // as errors name it
	return in, err
}
