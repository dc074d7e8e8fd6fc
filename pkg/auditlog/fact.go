package auditlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind is what a line tells of.
type Kind string

// What a line may tell of. Each completes "this line is about a ...".
const (
	// ControllerStarted: a controller that began to write.
	ControllerStarted Kind = "ControllerStarted"
	// ConfigurationCreated: a pool that got its first configuration, or the one that it
	// had when the journal began.
	ConfigurationCreated Kind = "ConfigurationCreated"
	// ConfigurationRotated: a pool that got another configuration.
	ConfigurationRotated Kind = "ConfigurationRotated"
	// ConfigurationDeleted: a pool that is no more, or has no profile any more.
	ConfigurationDeleted Kind = "ConfigurationDeleted"
	// PoolTakenOver: a pool that another controller had served.
	PoolTakenOver Kind = "PoolTakenOver"
	// HandedBack: a cluster that was prepared for that other controller.
	HandedBack Kind = "HandedBack"
	// ProfileAccepted: a version of a profile that became current in a source.
	ProfileAccepted Kind = "ProfileAccepted"
	// ProfileRefused: what of a revision of a source was not applied, or all of it.
	ProfileRefused Kind = "ProfileRefused"
	// ProfileRemoved: a profile that left its source.
	ProfileRemoved Kind = "ProfileRemoved"
	// NodeJoined: a node, and what it was provisioned from.
	NodeJoined Kind = "NodeJoined"
	// NodeDisputed: a node that says something else than the records.
	NodeDisputed Kind = "NodeDisputed"
	// NodeRemoved: a node that is gone.
	NodeRemoved Kind = "NodeRemoved"
	// ProvenanceDropped: a NodeProvenance that was too old, as it was.
	ProvenanceDropped Kind = "ProvenanceDropped"
	// LogContinued: the file before, which was moved away.
	LogContinued Kind = "LogContinued"
	// LogRepaired: a line that was cut off, and where its beginning is kept.
	LogRepaired Kind = "LogRepaired"
)

// Fact is what a line tells. Its text is fit for a terminal, and holds no credential.
type Fact struct {
	Kind Kind `json:"kind"`
	// Object is what the fact is about.
	Object Object `json:"object"`
	// Occasion tells the fact from others of its kind about the same object.
	Occasion string `json:"occasion,omitempty"`
	// Since is when it began to be so, by the clock of the API server, in RFC 3339.
	Since string `json:"since,omitempty"`
	// Reason is a word, Message a sentence.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Pool and Machine are those of a node.
	Pool    *Object `json:"pool,omitempty"`
	Machine *Object `json:"machine,omitempty"`
	// Was and Is are the configurations before and after.
	Was *Configuration `json:"was,omitempty"`
	Is  *Configuration `json:"is,omitempty"`
	// Evidence is how the configuration of a node is known, Reported what it said of itself.
	Evidence string  `json:"evidence,omitempty"`
	Reported *Report `json:"reported,omitempty"`
	// Profile is a version of a profile.
	Profile *Profile `json:"profile,omitempty"`
	// Controller is who writes.
	Controller *Controller `json:"controller,omitempty"`
	// Record is the JSON of an object that is about to be deleted: its spec and status.
	Record json.RawMessage `json:"record,omitempty"`
}

// Object names an object of a cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Configuration is one that a pool had.
type Configuration struct {
	// UID is that of its OperatingSystemConfig.
	UID           string `json:"uid,omitempty"`
	InputDigest   string `json:"inputDigest,omitempty"`
	Profile       string `json:"profile,omitempty"`
	Version       string `json:"version,omitempty"`
	ProfileDigest string `json:"profileDigest,omitempty"`
	Repository    string `json:"repository,omitempty"`
	Path          string `json:"path,omitempty"`
	Commit        string `json:"commit,omitempty"`
	Change        string `json:"change,omitempty"`
	SelectedBy    string `json:"selectedBy,omitempty"`
	Author        string `json:"author,omitempty"`
	Signature     string `json:"signature,omitempty"`
	Engine        string `json:"engine,omitempty"`
}

// Report is what a node says of itself.
type Report struct {
	Config string `json:"config,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// Profile is a version of a profile in a source.
type Profile struct {
	Name       string `json:"name"`
	Version    string `json:"version,omitempty"`
	Object     string `json:"object,omitempty"`
	Digest     string `json:"digest,omitempty"`
	Repository string `json:"repository,omitempty"`
	Revision   string `json:"revision,omitempty"`
	Path       string `json:"path,omitempty"`
	Commit     string `json:"commit,omitempty"`
	SelectedBy string `json:"selectedBy,omitempty"`
	// Signature says who signed, where signatures are verified.
	Signature string `json:"signature,omitempty"`
}

// Controller is a run of the controller.
type Controller struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// idDigits is how much of a digest an id has, in hex digits.
const idDigits = 32

// ID is the same for the same fact, and for no other: it is taken over the kind, the
// object and the occasion.
func (f Fact) ID() string {
	sum := sha256.Sum256(canonical(struct {
		Kind     Kind   `json:"kind"`
		Object   Object `json:"object"`
		Occasion string `json:"occasion"`
	}{f.Kind, f.Object, f.Occasion}))
	return hex.EncodeToString(sum[:])[:idDigits]
}

// canonical is the JSON of a value of this package's types: fields in the order of
// their declaration, nothing between them, no escapes but those that JSON demands and
// those of what would do something to a terminal (security.md 28).
func canonical(v any) []byte {
	text, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // structs of strings always encode
	}
	return text
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escape(replaced(bytes.TrimSuffix(b.Bytes(), []byte("\n")))), nil
}

// replaced writes the character that stands for bytes that are none as itself. encoding/json
// escapes it where it puts it in, and not where it reads it: a line would be read as another
// one than was written.
func replaced(text []byte) []byte {
	escaped := []byte(`\ufffd`)
	if !bytes.Contains(text, escaped) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		switch {
		case bytes.HasPrefix(text[i:], escaped):
			out, i = utf8.AppendRune(out, utf8.RuneError), i+len(escaped)
		case text[i] == '\\': // with what it escapes, which may be another one
			out, i = append(out, text[i:i+2]...), i+2
		default:
			out, i = append(out, text[i]), i+1
		}
	}
	return out
}

// unseen are characters that are not seen and may do something: controls, those that
// turn the direction of text, and those without width. The list is a part of the recipe,
// and so does not follow Unicode's.
var unseen = [][2]rune{
	{0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
	{0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
}

// escape writes such characters as JSON's escapes: in JSON they are in strings only.
func escape(text []byte) []byte {
	is := func(r rune) bool {
		return slices.ContainsFunc(unseen, func(of [2]rune) bool { return of[0] <= r && r <= of[1] })
	}
	if !bytes.ContainsFunc(text, is) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		switch {
		case !is(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
