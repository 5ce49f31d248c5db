package ecs

import (
	"bytes"
	"strings"
	"time"
)

func (s *Server) secretActions() map[string]handler {
	return map[string]handler{
		"CreateSecret":   s.createSecret,
		"DescribeSecret": s.describeSecret,
		"GetSecretValue": s.getSecretValue,
		"PutSecretValue": s.putSecretValue,
		"DeleteSecret":   s.deleteSecret,
		"ListSecrets":    s.listSecrets,
		"TagResource":    s.tagSecret,
		"UntagResource":  s.untagSecret,
	}
}

func secretMissing() *apiError {
	return failf("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
}

func secretMarked() *apiError {
	return failf(
		"InvalidRequestException", "You can't perform this operation on the secret because it was marked for deletion.",
	)
}

// createInput is Secrets Manager API, CreateSecret; no replicas.
type createInput struct {
	Name               *string     `json:"Name"`
	ClientRequestToken *string     `json:"ClientRequestToken"`
	Description        *string     `json:"Description"`
	KmsKeyID           *string     `json:"KmsKeyId"`
	SecretString       *string     `json:"SecretString"`
	SecretBinary       []byte      `json:"SecretBinary"`
	Tags               []secretTag `json:"Tags"`
}

// secretTag has its members with capitals, as Secrets Manager writes them.
type secretTag struct {
	Key   *string `json:"Key"`
	Value *string `json:"Value"`
}

func secretTags(tags []tag) []secretTag {
	out := []secretTag{}
	for _, t := range tags {
		out = append(out, secretTag(t))
	}
	return out
}

func (in *createInput) version(now time.Time) *version {
	v := &version{id: value(in.ClientRequestToken), binary: in.SecretBinary, created: now}
	if in.SecretString != nil {
		v.text, v.isText = *in.SecretString, true
	}
	return v
}

// check is Secrets Manager API, CreateSecret and PutSecretValue: either text or
// bytes, 64 KiB; the token has 32 to 64 characters and is the version's id.
func (in *createInput) check() *apiError {
	if in.SecretString != nil && in.SecretBinary != nil {
		return invalidParameter("You can't specify both a binary secret value and a string secret value in the same secret.")
	}
	if in.SecretString == nil && in.SecretBinary == nil {
		return nil
	}
	if n := in.version(time.Time{}).size(); n > maxSecret || n == 0 {
		return invalidParameter("The secret value must have 1 to %d bytes.", maxSecret)
	}
	// Without a token: "If you generate a raw HTTP request ... you must generate a
	// ClientRequestToken".
	if n := len(value(in.ClientRequestToken)); n < minSecretToken || n > maxSecretToken {
		return invalidParameter(
			"You must provide a ClientRequestToken value with %d to %d characters. We recommend a UUID-type value.",
			minSecretToken, maxSecretToken,
		)
	}
	return nil
}

func (s *Server) createSecret(c *request) (any, *apiError) {
	var in createInput
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	name := value(in.Name)
	arn := s.arnOf("secretsmanager", "secret:"+name+"-*")
	if e := s.authorize("secretsmanager:CreateSecret", arn); e != nil {
		return nil, e
	}
	if e := s.authorizeTags("secretsmanager", arn, len(in.Tags)); e != nil {
		return nil, e
	}
	if len(name) > maxSecretName || !secretPattern.MatchString(name) {
		return nil, failf(
			"ValidationException",
			"Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!",
		)
	}
	if len(value(in.Description)) > maxDescription || len(in.Tags) > maxSecretTags {
		return nil, invalidParameter("The description or the list of tags is too long.")
	}
	if e := in.check(); e != nil {
		return nil, e
	}
	if e := checkTags(plainTags(in.Tags)); e != nil {
		return nil, e
	}
	s.erase(c.now)
	if old := s.secrets[name]; old != nil {
		return s.createdBefore(old, &in, c.now)
	}
	sec := &secret{
		name: name, arn: s.secretARN(name), description: value(in.Description), created: c.now, changed: c.now,
		tags: plainTags(in.Tags),
	}
	if v := in.version(c.now); v.size() > 0 {
		sec.put(v)
	}
	s.secrets[name] = sec
	s.settle(c.now)
	return sec.answer(value(in.ClientRequestToken)), nil
}

// createdBefore is Secrets Manager API, CreateSecret: ClientRequestToken: the same
// again is answered as at first, another one collides.
func (s *Server) createdBefore(old *secret, in *createInput, now time.Time) (any, *apiError) {
	if !old.deleted.IsZero() {
		return nil, failf(
			"InvalidRequestException",
			"You can't create this secret because a secret with this name is already scheduled for deletion.",
		)
	}
	if v := old.versions[value(in.ClientRequestToken)]; v != nil && v.same(in.version(now)) {
		return old.answer(v.id), nil
	}
	return nil, failf("ResourceExistsException", "The operation failed because the secret %s already exists.", old.name)
}

func (v *version) same(o *version) bool {
	return v.isText == o.isText && v.text == o.text && bytes.Equal(v.binary, o.binary)
}

func (sec *secret) answer(versionID string) map[string]any {
	out := map[string]any{"ARN": sec.arn, "Name": sec.name}
	if versionID != "" && sec.versions[versionID] != nil {
		out["VersionId"] = versionID
	}
	return out
}

// reach finds a secret for an action on it; deleted ones only where asked for.
func (s *Server) reach(id *string, action string, deletedToo bool, now time.Time) (*secret, *apiError) {
	s.erase(now)
	sec := s.findSecret(value(id))
	arn := value(id)
	if sec != nil {
		arn = sec.arn
	} else if !isArn(arn) {
		arn = s.arnOf("secretsmanager", "secret:"+arn)
	}
	if e := s.authorize("secretsmanager:"+action, arn); e != nil {
		return nil, e
	}
	switch {
	case sec == nil:
		return nil, secretMissing()
	case !sec.deleted.IsZero() && !deletedToo:
		return nil, secretMarked()
	}
	return sec, nil
}

func (s *Server) getSecretValue(c *request) (any, *apiError) {
	var in struct {
		SecretID     *string `json:"SecretId"`
		VersionID    *string `json:"VersionId"`
		VersionStage *string `json:"VersionStage"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	sec, e := s.reach(in.SecretID, c.action, false, c.now)
	if e != nil {
		return nil, e
	}
	v := sec.version(value(in.VersionID), value(in.VersionStage))
	if v == nil {
		return nil, failf(
			"ResourceNotFoundException", "Secrets Manager can't find the specified secret value for staging label: %s",
			or(in.VersionStage, current),
		)
	}
	out := sec.answer(v.id)
	out["VersionStages"], out["CreatedDate"] = v.stages, epoch(v.created)
	if v.isText {
		out["SecretString"] = v.text
	} else {
		out["SecretBinary"] = v.binary
	}
	return out, nil
}

func (s *Server) putSecretValue(c *request) (any, *apiError) {
	var in struct {
		createInput
		SecretID      *string  `json:"SecretId"`
		VersionStages []string `json:"VersionStages"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	if in.Name != nil || in.Description != nil || in.KmsKeyID != nil || in.Tags != nil || in.VersionStages != nil {
		return nil, invalidParameter("This server takes SecretId, ClientRequestToken and a value here.")
	}
	sec, e := s.reach(in.SecretID, c.action, false, c.now)
	if e != nil {
		return nil, e
	}
	v := in.version(c.now)
	if v.size() == 0 {
		return nil, failf("InvalidRequestException", "You must provide either SecretString or SecretBinary.")
	}
	if e := in.check(); e != nil {
		return nil, e
	}
	if old := sec.versions[v.id]; old != nil {
		if !old.same(v) {
			return nil, failf(
				"ResourceExistsException", "The operation failed because a version with this id exists with another value.",
			)
		}
		v = old
	} else if sec.full(c.now) {
		return nil, failf("LimitExceededException", "You have exceeded the maximum number of versions of a secret.")
	} else {
		sec.put(v)
		s.settle(c.now)
	}
	out := sec.answer(v.id)
	out["VersionStages"] = v.stages
	return out, nil
}

// deleteSecret is Secrets Manager API, DeleteSecret.
func (s *Server) deleteSecret(c *request) (any, *apiError) {
	var in struct {
		SecretID *string `json:"SecretId"`
		Force    *bool   `json:"ForceDeleteWithoutRecovery"`
		Days     *int64  `json:"RecoveryWindowInDays"`
	}
	if e := decode(c.body, &in); e != nil {
		return nil, e
	}
	force := value(in.Force)
	if force && in.Days != nil {
		return nil, invalidParameter("You can't use ForceDeleteWithoutRecovery in conjunction with RecoveryWindowInDays.")
	}
	days := or(in.Days, maxRecoveryDays)
	if days < minRecoveryDays || days > maxRecoveryDays {
		return nil, invalidParameter(
			"The RecoveryWindowInDays value must be between %d and %d days (inclusive).", minRecoveryDays, maxRecoveryDays,
		)
	}
	sec, e := s.reach(in.SecretID, c.action, force, c.now)
	if e != nil && e.Code == "ResourceNotFoundException" && force {
		// "If you forcibly delete an already deleted or nonexistent secret, the
		// operation does not return ResourceNotFoundException".
		arn, name := value(in.SecretID), value(in.SecretID)
		if isArn(name) {
			name = suffixPattern.ReplaceAllString(name[strings.LastIndex(name, ":")+1:], "")
		} else {
			arn = s.arnOf("secretsmanager", "secret:"+name)
		}
		return map[string]any{"ARN": arn, "Name": name, "DeletionDate": epoch(c.now)}, nil
	}
	if e != nil {
		return nil, e
	}
	if sec.deleted.IsZero() {
		sec.deleted = c.now
	}
	sec.erased = c.now.Add(time.Duration(days) * 24 * time.Hour)
	if force {
		sec.erased = c.now.Add(s.cfg.Delays.Erase)
	}
	out := sec.answer("")
	out["DeletionDate"] = epoch(sec.erased)
	s.erase(c.now)
	s.settle(c.now)
	return out, nil
}
