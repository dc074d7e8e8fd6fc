package boots

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// nearby is the largest distance of a line that has the reported command.
	nearby = 20
	// readTimeout bounds the reading of a profile's file, for which a repository can be fetched.
	readTimeout = 20 * time.Second
	// maxKnown is the maximum number of cached entries, and knownTime how long they are retained.
	maxKnown, knownTime = 512, 24 * time.Hour
	// shortestCredential is the length of the shortest text that is masked as a credential: shorter
	// ones occur in any command.
	shortestCredential = 6
)

// Profiles reads the files of profiles. *verify.Verifier implements it.
type Profiles interface {
	// ReadProfile returns the profile of an intact record with the lines of its file; nil if no
	// file has it.
	ReadProfile(ctx context.Context, pool types.NamespacedName, rec render.Record) (*profile.Document, error)
}

// located is the cause of a failure.
type located struct {
	api.BootCause

	// retry says that the file of the profile could not be read now.
	retry bool
}

// sameCommand reports whether two causes are of the same command on the node.
func (l located) sameCommand(c api.BootCause) bool {
	return l.NodeFile == c.NodeFile && l.NodeLine == c.NodeLine && l.Command == c.Command && l.ExitStatus == c.ExitStatus
}

// Keys of Reconciler.known. Machines of a pool report the same place again and again.
type (
	// causeKey is that of an api.BootCause.
	causeKey struct {
		pool, digest  string
		stage         api.BootStage
		file, command string
		line, exit    int32
	}
	// renderingKey, a pool and an input digest, is that of a *rendering.
	renderingKey string
	// documentKey, a digest, repository, commit and path, is that of a *profile.Document, or of unread.
	documentKey string
)

// unread says that a document does not exist, or cannot be read now.
type unread struct{ err error }

// rendering is a configuration that was rendered again.
type rendering struct {
	doc *profile.Document
	*render.Inspection
}

// known returns what is cached for a key.
func known[V any](r *Reconciler, key any) (V, bool) {
	have, _ := r.known.Get(key)
	v, ok := have.(V)
	return v, ok
}

// locate finds the line of the profile with the command that an entry names.
func (r *Reconciler) locate(ctx context.Context, pool types.NamespacedName, g *lineage.Generation, from *api.ProvenanceConfiguration, entry *api.MachineBoot) (*located, error) {
	key := causeKey{pool.String(), g.InputDigest, entry.Stage, entry.File, entry.Command, entry.Line, entry.ExitStatus}
	if c, ok := known[api.BootCause](r, key); ok {
		return &located{BootCause: c}, nil
	}
	if err := r.mayRun(pool.String()); err != nil {
		return nil, err
	}
	credentials, err := r.credentialsOf(ctx, pool)
	if err != nil {
		return nil, err
	}
	clean := func(text string, n int) string {
		return redact.Shorten(redact.PrintableLine(maskCredentials(text, credentials)), n)
	}
	out := &located{BootCause: api.BootCause{
		NodeFile: clean(entry.File, 256), NodeLine: entry.Line, Command: clean(entry.Command, 512), ExitStatus: entry.ExitStatus,
		Commit: redact.PrintableLine(from.Commit), Author: redact.PrintableLine(from.Author),
	}}
	rendered, err := r.renderAgain(ctx, pool, g)
	if err != nil {
		log.FromContext(ctx).Error(err, "finding the line of a failed boot in the profile", "pool", pool.String())
		out.retry = true
		return out, nil
	}
	if rendered == nil {
		out.retry = true // the repository can have the file later
		return out, nil
	}
	out.File, out.Line, out.Near = rendered.find(entry)
	out.File = redact.PrintableLine(out.File)
	r.known.Add(key, out.BootCause, knownTime)
	return out, nil
}

// renderAgain renders a configuration from its record, with the origin of each line. It returns nil
// if no file has the profile.
func (r *Reconciler) renderAgain(ctx context.Context, pool types.NamespacedName, g *lineage.Generation) (*rendering, error) {
	key := renderingKey(pool.String() + " " + g.InputDigest)
	if have, ok := known[*rendering](r, key); ok {
		return have, nil
	}
	rec, err := r.ReadRecord(ctx, pool, g)
	if err != nil {
		return nil, err
	}
	if !lineage.Intact(rec) {
		return nil, nil
	}
	doc, err := r.readFileAtCommit(ctx, pool, rec)
	if err != nil || doc == nil {
		return nil, err
	}
	in, err := r.RebuildInput(ctx, rec, doc.Spec)
	if err != nil {
		return nil, err
	}
	in.Cluster.BootstrapKubeconfig = render.BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, "token")
	in, _ = in.ReplaceSecrets()
	seen, err := render.NewInspector(in.Profile).Inspect(in)
	if seen == nil { // an error with a result is about sizes
		return nil, err
	}
	out := &rendering{doc, seen}
	r.known.Add(key, out, knownTime)
	return out, nil
}

// readFileAtCommit returns the profile that its file had at the commit of a record, with the lines of
// the file; nil if no file has it. It reads Git or the built-in profiles, not the cluster, and caches
// the result.
func (r *Reconciler) readFileAtCommit(ctx context.Context, pool types.NamespacedName, rec render.Record) (*profile.Document, error) {
	key := documentKey(strings.Join([]string{rec.ObjectDigest, rec.Repository, rec.Commit, rec.Path}, " "))
	if doc, ok := known[*profile.Document](r, key); ok {
		return doc, nil
	}
	if failed, ok := known[unread](r, key); ok {
		return nil, failed.err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	doc, err := r.Profiles.ReadProfile(ctx, pool, rec)
	if err != nil {
		err = fmt.Errorf("reading profile %q at %s: %w", rec.Profile, rec.Commit, err)
	}
	if err != nil || doc == nil {
		r.known.Add(key, unread{err}, faultRetry)
		return nil, err
	}
	r.known.Add(key, doc, knownTime)
	return doc, nil
}

// find returns the file and line of the profile with the command of an entry, and whether the line
// is not the reported one. The file is empty if no line nearby has it.
func (s *rendering) find(entry *api.MachineBoot) (file string, line int32, near bool) {
	stages := []render.InspectedStage{s.Provisioning, s.Bootstrap}
	if entry.Stage == api.BootStageBootstrap {
		slices.Reverse(stages)
	}
	for _, stage := range stages {
		for _, f := range stage.Files {
			if f.Path != entry.File {
				continue
			}
			n, near := nearestLine(strings.Split(f.Content, "\n"), int(entry.Line), entry.Command)
			if n == 0 || n > len(f.LineOrigins) {
				return "", 0, false
			}
			at := f.LineOrigins[n-1]
			file, line := s.doc.Position(at.Field, at.Line)
			if line == 0 {
				return "", 0, false
			}
			return file, int32(line), near //nolint:gosec // a file has at most a megabyte
		}
	}
	return "", 0, false
}

// nearestLine returns the line, from 1, that has a command: the reported one, or the nearest within
// 20 lines. Without a command it is the reported one, as of the bootstrap stage. It returns 0 if there
// is none, or if none is reported, as after an explicit exit.
func nearestLine(lines []string, reported int, command string) (line int, near bool) {
	if reported == 0 {
		return 0, false
	}
	first, _, _ := strings.Cut(strings.TrimSpace(command), "\n")
	want := words(first)
	inRange := func(n int) bool { return n >= 1 && n <= len(lines) }
	if want == "" {
		if !inRange(reported) {
			return 0, false
		}
		return reported, false
	}
	for d := range nearby + 1 {
		// Bash names a later line for a command of several lines, so the one before comes first.
		for _, n := range []int{reported - d, reported + d} {
			if inRange(n) && hasCommand(words(lines[n-1]), want) {
				return n, d > 0
			}
		}
	}
	return 0, false
}

// words returns a text with single spaces, and without the mark of a continued line.
func words(text string) string {
	return strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(text), `\`)), " ")
}

// hasCommand reports whether a line has the beginning of a command, or is the beginning of it.
func hasCommand(line, command string) bool {
	if strings.HasPrefix(line, "#") || line == "" {
		return false
	}
	// The node or this controller can have masked arguments.
	rest, matched := line, false
	for _, part := range masks.Split(command, -1) {
		part = strings.TrimSpace(part)
		_, after, found := strings.Cut(rest, part)
		if !found {
			// A line can end within a command.
			return matched && endsWithin(rest, part) || len(line) >= shortestCredential && strings.HasPrefix(command, line)
		}
		rest, matched = after, matched || part != ""
	}
	return matched
}

// masks matches what nodes and this controller write in place of credentials.
var masks = regexp.MustCompile(`(\*{3}|` + redact.Masked + `)+`)

// endsWithin reports whether a line ends with the beginning of a text, and not by chance.
func endsWithin(line, text string) bool {
	for n := min(len(line), len(text)); n >= shortestCredential; n-- {
		if strings.HasSuffix(line, text[:n]) {
			return true
		}
	}
	return false
}

// credentialsOf reads the credentials in the documents of a pool.
func (r *Reconciler) credentialsOf(ctx context.Context, pool types.NamespacedName) ([]string, error) {
	var out []string
	names := lineage.NamesOf(pool)
	for _, name := range []string{names.Inputs, names.Kubeconfig} {
		var secret corev1.Secret
		found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}, &secret)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		for _, value := range secret.Data {
			var decoded any
			if json.Unmarshal(value, &decoded) == nil {
				out = appendTexts(out, decoded)
			}
			// The rest are tokens, of which redact.Mask knows the form.
		}
	}
	// A credential that contains another is masked first.
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out, nil
}

// appendTexts appends the texts in a decoded value, and each line of those with several.
func appendTexts(to []string, value any) []string {
	switch value := value.(type) {
	case string:
		for _, text := range append(strings.Split(value, "\n"), value) {
			if text = strings.TrimSpace(text); len(text) >= shortestCredential {
				to = append(to, text)
			}
		}
	case []any:
		for _, v := range value {
			to = appendTexts(to, v)
		}
	case map[string]any:
		for _, v := range value {
			to = appendTexts(to, v)
		}
	}
	return to
}

// maskCredentials masks known credentials, and text that looks like one.
func maskCredentials(text string, known []string) string {
	for _, k := range known {
		text = strings.ReplaceAll(text, k, redact.Masked)
	}
	return redact.Mask(text)
}
