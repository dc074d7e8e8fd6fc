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

// Kind is the kind of event in a line.
type Kind string

// Kinds of events. Each completes the sentence "this line is about a ...".
const (
	// ControllerStarted: a controller that began to write.
	ControllerStarted Kind = "ControllerStarted"
	// ConfigurationCreated: a pool that got its first configuration, or the one that it had
	// when the log began.
	ConfigurationCreated Kind = "ConfigurationCreated"
	// ConfigurationRotated: a pool that got another configuration.
	ConfigurationRotated Kind = "ConfigurationRotated"
	// ConfigurationDeleted: a pool that was deleted or has no profile any more.
	ConfigurationDeleted Kind = "ConfigurationDeleted"
	// PoolTakenOver: a pool that another controller had served.
	PoolTakenOver Kind = "PoolTakenOver"
	// HandedBack: a cluster that was prepared for that other controller.
	HandedBack Kind = "HandedBack"
	// ProfileAccepted: a version of a profile that became current in a source.
	ProfileAccepted Kind = "ProfileAccepted"
	// ProfileRefused: a revision of a source that was rejected completely or in part.
	ProfileRefused Kind = "ProfileRefused"
	// ProfileRemoved: a profile that was removed from its source.
	ProfileRemoved Kind = "ProfileRemoved"
	// NodeJoined: a node, and what it was provisioned from.
	NodeJoined Kind = "NodeJoined"
	// NodeDisputed: a node whose report contradicts the records.
	NodeDisputed Kind = "NodeDisputed"
	// NodeDiffers: a node that no longer has what its configuration put on it, or has stopped
	// to report that.
	NodeDiffers Kind = "NodeDiffers"
	// NodeMatches: a node of which NodeDiffers is no longer true.
	NodeMatches Kind = "NodeMatches"
	// NodeRemoved: a node that was deleted.
	NodeRemoved Kind = "NodeRemoved"
	// BootFailing: a machine that reported which command of its scripts failed.
	BootFailing Kind = "BootFailing"
	// ProvenanceDropped: an expired NodeProvenance, with its content.
	ProvenanceDropped Kind = "ProvenanceDropped"
	// LogContinued: the previous file, which was moved away.
	LogContinued Kind = "LogContinued"
	// LogRepaired: a truncated line, with the place of its remainder.
	LogRepaired Kind = "LogRepaired"
)

// Event is the content of a line. Its text contains no control characters and no
// credentials.
type Event struct {
	Kind Kind `json:"kind"`
	// Object is the subject of the event.
	Object Object `json:"object"`
	// Key distinguishes events of the same kind about the same object.
	Key string `json:"occasion,omitempty"`
	// Since is when it began, by the clock of the API server, in RFC 3339.
	Since string `json:"since,omitempty"`
	// Reason is a word, Message a sentence.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Pool and Machine of a node.
	Pool    *Object `json:"pool,omitempty"`
	Machine *Object `json:"machine,omitempty"`
	// Was and Is are the configurations before and after.
	Was *Configuration `json:"was,omitempty"`
	Is  *Configuration `json:"is,omitempty"`
	// Evidence is the evidence for the configuration of a node; Reported is the node report.
	Evidence string  `json:"evidence,omitempty"`
	Reported *Report `json:"reported,omitempty"`
	// Profile is a version of a profile.
	Profile *Profile `json:"profile,omitempty"`
	// Controller is the writer.
	Controller *Controller `json:"controller,omitempty"`
	// Record is the JSON of an object before its deletion: its spec and status.
	Record json.RawMessage `json:"record,omitempty"`
}

// Object names an object of a cluster.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Configuration is a configuration of a pool.
type Configuration struct {
	// UID of its OperatingSystemConfig.
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

// Report is the report of a node.
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
	// Signature names the signer, if signatures are verified.
	Signature string `json:"signature,omitempty"`
}

// Controller is a run of the controller.
type Controller struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// idDigits is the length of an id, in hex digits of a digest.
const idDigits = 32

// ID is the same for the same event, and for no other: a digest of the kind, the object and
// its key.
func (f Event) ID() string {
	sum := sha256.Sum256(canonicalJSON(struct {
		Kind     Kind   `json:"kind"`
		Object   Object `json:"object"`
		EventKey string `json:"occasion"`
	}{f.Kind, f.Object, f.Key}))
	return hex.EncodeToString(sum[:])[:idDigits]
}

// canonicalJSON encodes a value of this package's types as JSON: fields in the order of their
// declaration, no whitespace, and no escapes except those that JSON requires and those of
// characters that affect a terminal (security.md 28).
func canonicalJSON(v any) []byte {
	text, err := encodeJSON(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // structs of strings can always be encoded
	}
	return text
}

// encodeJSON encodes a value as one line of JSON without HTML escapes.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeUnsafeRunes(unescapeReplacementCharacters(bytes.TrimSuffix(b.Bytes(), []byte("\n")))), nil
}

// unescapeReplacementCharacters turns the escape of U+FFFD into the character. encoding/json
// escapes it when it replaces invalid bytes, but not when it encodes one that it has decoded, so
// decoding and encoding a line would change it.
func unescapeReplacementCharacters(text []byte) []byte {
	escaped := []byte(`\ufffd`)
	if !bytes.Contains(text, escaped) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		switch {
		case bytes.HasPrefix(text[i:], escaped):
			out, i = utf8.AppendRune(out, utf8.RuneError), i+len(escaped)
		case text[i] == '\\': // skip the escaped character, which can be another backslash
			out, i = append(out, text[i:i+2]...), i+2
		default:
			out, i = append(out, text[i]), i+1
		}
	}
	return out
}

// unseen are invisible characters that have an effect: controls, bidirectional controls,
// and characters without width. The list is part of the recipe, so it does not follow new
// versions of Unicode.
var unseen = [][2]rune{
	{0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
	{0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
}

// escapeUnsafeRunes replaces characters that affect a terminal by JSON escapes. In JSON they occur
// only in strings.
func escapeUnsafeRunes(text []byte) []byte {
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
