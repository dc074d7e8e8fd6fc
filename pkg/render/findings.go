package render

import (
	"bytes"
	_ "embed"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// cloudInitSchema defines the types of the modules that a document can have; see the comment in
// the file.
//
//go:embed cloudinit_schema.json
var cloudInitSchema []byte

// Findings returns the parts of a profile that render, but will not do on a node what their
// author expects: paths that depend on where cloud-init runs, cloud-init modules that its
// schema rejects or that never run, and units that nothing starts. Nodes get such a profile all
// the same, since some profiles of existing fleets have them.
//
// It parses a schema and every text of the profile, which takes milliseconds: it is for authors
// of profiles, and Render never calls it. Each finding has the fields of an error of Check, the
// line included.
func (p Profile) Findings() []*invalid.Error {
	findings := p.pathFindings()
	if p.Spec.OSName == osm.OperatingSystemFlatcar {
		return p.locateProblems("", findings) // coreos-cloudinit has no schema, and starts units itself
	}
	for _, s := range []struct {
		name   string
		config *osm.OSPConfig
	}{{stageBootstrap, &p.Spec.BootstrapConfig}, {stageProvisioning, &p.Spec.ProvisioningConfig}} {
		root := "spec." + s.name + "Config"
		findings = append(findings, invalid.SetStage(s.name, p.moduleFindings(root, s.name, s.config)...)...)
		if s.name == stageProvisioning {
			findings = append(findings, invalid.SetStage(s.name, p.unstartedUnits(root, s.config.Units)...)...)
		}
	}
	return p.locateProblems("", findings)
}

// pathFindings returns the paths that are not absolute and clean: cloud-init resolves a
// relative path in its working directory, and does not notice two names of one file. Ignition
// rejects such paths, and Check reports them.
func (p Profile) pathFindings() []*invalid.Error {
	if p.Spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition {
		return nil
	}
	var findings []*invalid.Error
	check := func(stage, field string, files []osm.File) {
		for i, f := range files {
			at := field + "[" + strconv.Itoa(i) + "].path"
			clean := path.Join("/", f.Path)
			switch {
			case f.Path == "": // which the decoder refuses
			case !path.IsAbs(f.Path):
				findings = append(findings, invalid.SetStage(stage, invalid.At(at, "%q is relative, and cloud-init takes it from the folder that it runs in: write %q", f.Path, clean))...)
			case f.Path != clean:
				findings = append(findings, invalid.SetStage(stage, invalid.At(at, "%q is another form of %q, so a second file with that path goes unnoticed: write %q", f.Path, clean, clean))...)
			}
		}
	}
	for stage, config := range map[string]*osm.OSPConfig{stageBootstrap: &p.Spec.BootstrapConfig, stageProvisioning: &p.Spec.ProvisioningConfig} {
		root := "spec." + stage + "Config"
		check(stage, root+".files", config.Files)
		for i, runtime := range config.SupportedContainerRuntimes {
			check(stage, root+".supportedContainerRuntimes["+strconv.Itoa(i)+"].files", runtime.Files)
		}
	}
	slices.SortFunc(findings, func(a, b *invalid.Error) int { return strings.Compare(a.Field, b.Field) })
	return findings
}

// moduleFindings validates the modules in the form in which a node's document contains them.
func (p Profile) moduleFindings(root, stage string, config *osm.OSPConfig) []*invalid.Error {
	if config.CloudInitModules == nil {
		return nil
	}
	modules := config.CloudInitModules.DeepCopy()
	if p.Spec.OSName == osm.OperatingSystemRHEL {
		modules.RHSubscription = nil // the pool's takes its place
	}
	findings := commandFindings(root+".modules.bootcmd", modules.BootCMD)
	findings = append(findings, commandFindings(root+".modules.runcmd", modules.RunCMD)...)
	for _, name := range slices.Sorted(maps.Keys(modules.YumRepos)) {
		findings = append(findings, valueFindings(root+".modules.yum_repos["+name+"]", modules.YumRepos[name])...)
	}
	if stage == stageProvisioning {
		// Only the init stage of cloud-init runs a second time.
		for _, late := range []struct {
			key string
			set bool
		}{{"runcmd", len(modules.RunCMD) > 0}, {"rh_subscription", len(modules.RHSubscription) > 0}, {"yum_repos", len(modules.YumRepos) > 0}} {
			if late.set {
				findings = append(findings, invalid.At(root+".modules."+late.key, "is for a late stage of cloud-init, which does not run for the provisioning document: do it in a script"))
			}
		}
	}
	document := Input{Pool: Pool{OperatingSystem: p.Spec.OSName}}.cloudInit(stage, &osm.OSCConfig{CloudInitModules: modules})
	b, err := document.Encode()
	if err != nil {
		return append(findings, invalid.At(root+".modules", "%w", err))
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		return append(findings, invalid.At(root+".modules", "encodes as no YAML: %w", err))
	}
	if mismatch, ok := errors.AsType[*jsonschema.ValidationError](documentSchema().Validate(values)); ok {
		findings = append(findings, schemaFindings(root+".modules", mismatch)...)
	}
	return findings
}

// documentSchema compiles cloudInitSchema once.
var documentSchema = sync.OnceValue(compileCloudInitSchema)

func compileCloudInitSchema() *jsonschema.Schema {
	const name = "cloud-init.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(cloudInitSchema))
	if err != nil {
		panic(err) // a file of this package
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, document); err != nil {
		panic(err)
	}
	return c.MustCompile(name)
}

// schemaFindings splits an error of the schema into findings. An error with alternatives, one
// of which is enough, gives one finding.
func schemaFindings(field string, err *jsonschema.ValidationError) []*invalid.Error {
	switch err.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		var parts []string
		for _, cause := range err.Causes {
			parts = append(parts, schemaMessage(cause))
		}
		if len(parts) == 0 {
			parts = append(parts, schemaMessage(err))
		}
		return []*invalid.Error{schemaFinding(field, err, strings.Join(parts, ", or "))}
	}
	if len(err.Causes) == 0 {
		return []*invalid.Error{schemaFinding(field, err, schemaMessage(err))}
	}
	var findings []*invalid.Error
	for _, cause := range err.Causes {
		findings = append(findings, schemaFindings(field, cause)...)
	}
	return findings
}

func schemaFinding(field string, err *jsonschema.ValidationError, what string) *invalid.Error {
	for i, name := range err.InstanceLocation {
		if i == 0 {
			field += "." + name
		} else {
			field += "[" + name + "]"
		}
	}
	return invalid.At(field, "%w", &SchemaError{what: what})
}

// SchemaError is a violation of cloud-init's schema by a value.
type SchemaError struct{ what string }

func (e *SchemaError) Error() string { return "cloud-init takes no such value: " + e.what }

func schemaMessage(err *jsonschema.ValidationError) string {
	return err.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// userdata.StartsUnits is a line that starts what it names: a command, or a dependency in
// another unit.
var startsUnits = regexp.MustCompile(`\b(systemctl\b.*\b(start|restart|try-restart|reload-or-restart|isolate|now)|Wants=|Requires=|BindsTo=|Upholds=|Requisite=|Unit=|OnSuccess=|OnFailure=)\b`)

// unstartedUnits returns the units that nothing starts during the boot that writes them. They are
// written as files, after systemd has decided what to start.
func (p Profile) unstartedUnits(root string, units []osm.Unit) []*invalid.Error {
	var lines []string
	for text := range p.unitStartingTexts() {
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
			if startsUnits.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	var findings []*invalid.Error
	for i, u := range units {
		if userdata.IsTrue(u.Mask) || u.Content == nil || *u.Content == "" || hasTriggerUnit(u.Name, units) ||
			slices.ContainsFunc(lines, func(line string) bool { return mentionsUnit(line, u.Name) }) {
			continue
		}
		when := "nothing starts it"
		if userdata.IsTrue(u.Enable) {
			when = "it starts at the next boot only"
		}
		findings = append(findings, invalid.At(root+".units["+strconv.Itoa(i)+"]", "%q comes with the provisioning stage, and %s: let a script run \"systemctl start --no-block %s\"", u.Name, when, u.Name))
	}
	return findings
}

// hasTriggerUnit reports whether a timer, socket or path of the same name starts a service.
func hasTriggerUnit(name string, units []osm.Unit) bool {
	stem, ok := strings.CutSuffix(name, ".service")
	return ok && slices.ContainsFunc(units, func(u osm.Unit) bool {
		return u.Name == stem+".timer" || u.Name == stem+".socket" || u.Name == stem+".path"
	})
}

// mentionsUnit reports whether a line contains the name of a unit, or of a service without its suffix.
func mentionsUnit(line, unit string) bool {
	for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(" \t\"'=;,", r) }) {
		if word == unit || word+".service" == unit {
			return true
		}
	}
	return false
}

// unitStartingTexts yields every text of a profile that can start a unit.
func (p Profile) unitStartingTexts() func(yield func(string) bool) {
	var all []string
	for _, config := range []*osm.OSPConfig{&p.Spec.BootstrapConfig, &p.Spec.ProvisioningConfig} {
		add := func(files []osm.File, templates map[string]string) {
			for _, f := range files {
				if f.Content.Inline != nil {
					all = append(all, f.Content.Inline.Data)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(templates)) {
				all = append(all, templates[name])
			}
		}
		add(config.Files, config.Templates)
		for _, r := range config.SupportedContainerRuntimes {
			add(r.Files, r.Templates)
		}
		for _, u := range config.Units {
			if u.Content != nil {
				all = append(all, *u.Content)
			}
			for _, d := range u.DropIns {
				all = append(all, d.Content)
			}
		}
		if m := config.CloudInitModules; m != nil {
			all = append(append(all, m.BootCMD...), m.RunCMD...)
		}
	}
	return slices.Values(all)
}
