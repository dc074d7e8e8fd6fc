package userdata

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/clarketm/json"
	butane "github.com/coreos/butane/base/v0_4"
	"github.com/coreos/butane/config/common"
	flatcar "github.com/coreos/butane/config/flatcar/v1_0"
	ignerrors "github.com/coreos/ignition/v2/config/shared/errors"
	"github.com/coreos/ignition/v2/config/v3_3/types"
	"github.com/coreos/ignition/v2/config/v3_4/translate"
	"github.com/coreos/vcontext/report"
	"k8s.io/utils/lru"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// maxTranslated is how many translations a stage caches. Each list of files has one: the
// registries of the settings and the machine's name add files to those of the profile.
const maxTranslated = 16

// skeleton is a document without its keys and the contents of its files. It depends on the
// profile and a few facts, so that the pools of a profile share Butane's translation.
type skeleton struct {
	files []ignitionFile
	units []osm.Unit // the stage's
}

// IgnitionStage translates the documents of one stage of a profile, and reports errors with the
// profile's fields.
type IgnitionStage struct {
	name string
	// fileFields are the fields of the profile's files.
	fileFields []string
	// translations are those of Butane, by their files.
	translations *lru.Cache
}

func NewIgnitionStage(name string, fileFields []string) *IgnitionStage {
	return &IgnitionStage{name: name, fileFields: fileFields, translations: lru.New(maxTranslated)}
}

// cachedTranslation returns Butane's translation of a skeleton, which callers must not change. Without
// the cache, one rendering of osp-flatcar takes more than 10 times as long (5.8 MB allocated
// instead of 0.6; BenchmarkRender), which is above its limit of 2.5 ms.
func (s *IgnitionStage) cachedTranslation(of skeleton) (types.Config, []*invalid.Error) {
	key := fmt.Sprintf("%#v", of.files)
	if config, ok := s.translations.Get(key); ok {
		return config.(types.Config), nil
	}
	// Two goroutines can both translate it; the result is the same.
	config, problems := s.translate(of)
	if len(problems) == 0 {
		s.translations.Add(key, config)
	}
	return config, problems
}

// translate has Butane translate a skeleton to a configuration. Everything that Butane reports
// is a problem, warnings included: a node that boots with only half of its profile is worse
// than none.
func (s *IgnitionStage) translate(of skeleton) (types.Config, []*invalid.Error) {
	if problems := CheckUnitNames(s.rootField(), of.units); len(problems) > 0 {
		return types.Config{}, invalid.SetStage(s.name, problems...)
	}
	// No FilesDir: Butane must not read the disk of the controller.
	config, rep, err := of.butane().ToIgn3_3(common.TranslateOptions{NoResourceAutoCompression: true})
	var problems []*invalid.Error
	for _, entry := range rep.Entries {
		// The mode that Butane reports as decimal was written in octal digits.
		if entry.Message != common.ErrDecimalMode.Error() {
			problems = append(problems, s.problemFromReportEntry(of, entry))
		}
	}
	if len(problems) == 0 && err != nil {
		problems = append(problems, s.problem("making the Ignition document: %w", err))
	}
	return config, problems
}

// butane returns the skeleton in Butane's format: variant flatcar, version 1.0.0, which is for
// Ignition 3.3.0.
func (of skeleton) butane() flatcar.Config {
	var c flatcar.Config
	c.Variant, c.Version = "flatcar", "1.0.0"
	for _, f := range of.files {
		c.Storage.Files = append(c.Storage.Files, butane.File{
			Path: f.path, Mode: ptr(int(f.mode)), Contents: butane.Resource{Source: ptr("data:,")},
			// Without it an existing file with other content fails the whole boot.
			Overwrite: ptr(true),
		})
	}
	for _, u := range of.units {
		unit := butane.Unit{Name: u.Name, Enabled: ptr(IsTrue(u.Enable))}
		if IsTrue(u.Mask) {
			unit.Mask = ptr(true)
		}
		if u.Content != nil && *u.Content != "" {
			unit.Contents = u.Content
		}
		for _, d := range u.DropIns {
			dropIn := butane.Dropin{Name: d.Name}
			if d.Content != "" {
				dropIn.Contents = ptr(d.Content)
			}
			unit.Dropins = append(unit.Dropins, dropIn)
		}
		c.Systemd.Units = append(c.Systemd.Units, unit)
	}
	return c
}

// marshalIgnition encodes a configuration on one line, in a version of Ignition's
// specification. For version 3 it omits empty fields like butane, with the same JSON encoder.
func marshalIgnition(config types.Config, version string) ([]byte, error) {
	var doc any = config
	switch version {
	case "2.3.0":
		return jsonText(convertIgnition3To2(config))
	case "3.4.0":
		doc = translate.Translate(config)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Check finds the errors in a stage of a profile that do not depend on the pool.
func (s *IgnitionStage) Check(files []osm.File, units []osm.Unit, bootstrap bool) []*invalid.Error {
	of := skeleton{units: units}
	if bootstrap {
		of.files = append(of.files, nameFile)
	}
	for n, f := range files {
		mode, err := ParsePermissions(f.Permissions)
		if err != nil {
			return nil // compiling the templates has found it
		}
		file := newIgnitionFile(f.Path, mode, n)
		// As on nodes, the last of two files with one path counts.
		of.files = slices.DeleteFunc(of.files, func(other ignitionFile) bool { return other.path == file.path })
		of.files = append(of.files, file)
	}
	_, problems := s.translate(of)
	return problems
}

// problemFromReportEntry converts an entry of Butane's report to a problem of the profile.
func (s *IgnitionStage) problemFromReportEntry(of skeleton, entry report.Entry) *invalid.Error {
	p := s.problem("%s", entry.Message)
	step := func(n int) string {
		if n < len(entry.Context.Path) {
			if name, ok := entry.Context.Path[n].(string); ok {
				return name
			}
		}
		return ""
	}
	index := func(n int) int {
		if n < len(entry.Context.Path) {
			if i, ok := entry.Context.Path[n].(int); ok {
				return i
			}
		}
		return -1
	}
	i := index(2)
	switch {
	case step(0) == "storage" && step(1) == "files" && i >= 0 && i < len(of.files):
		f := of.files[i]
		p.Field, p.File = s.fileField(f.source, step(3)), f.path
	case step(0) == "systemd" && step(1) == "units" && i >= 0 && i < len(of.units):
		p.Field += ".units[" + strconv.Itoa(i) + "]"
		at := 3
		if step(3) == "dropins" && index(4) >= 0 {
			p.Field += ".dropIns[" + strconv.Itoa(index(4)) + "]"
			at = 5
		}
		p.Field += map[string]string{"name": ".name", "contents": ".content"}[step(at)]
	}
	p.Err = errors.New(messageWithRemedy(entry.Message, of, i))
	return p
}

// messageWithRemedy returns a message with the remedy for some of Butane's messages.
func messageWithRemedy(message string, of skeleton, i int) string {
	switch {
	case message == ignerrors.ErrModeSpecialBits.Error():
		return "Ignition before 3.6.0 cannot set the setuid, setgid and sticky bits: use three digits, and set them with a unit"
	case message == ignerrors.ErrPathConflictsSystemd.Error():
		return "a unit or drop-in of this stage is written to the same path: remove one of them"
	case message == ignerrors.ErrDuplicate.Error():
		return "occurs twice: Ignition requires unique names"
	case message == ignerrors.ErrPathRelative.Error():
		return "is relative: write the path from the root, beginning with \"/\""
	case i >= 0 && i < len(of.units) && message == ignerrors.NewNoInstallSectionError(of.units[i].Name).Error():
		return "the unit is enabled but has no [Install] section, so that nothing would start it: add one, such as WantedBy=multi-user.target, or remove enable"
	}
	return message
}

// problem returns an InvalidError about the stage.
func (s *IgnitionStage) problem(format string, args ...any) *invalid.Error {
	return invalid.SetStage(s.name, invalid.At(s.rootField(), format, args...))[0]
}

func (s *IgnitionStage) rootField() string { return "spec." + s.name + "Config" }

// fileField returns the field of the file at an index in a stage, or of a part of it by
// Ignition's name. The files of the settings follow those of the profile.
func (s *IgnitionStage) fileField(source int, part string) string {
	switch {
	case source < 0:
		return s.rootField()
	case source >= len(s.fileFields):
		return "settings"
	}
	return s.fileFields[source] + map[string]string{"path": ".path", "mode": ".permissions"}[part]
}

func ptr[T any](v T) *T { return &v }
