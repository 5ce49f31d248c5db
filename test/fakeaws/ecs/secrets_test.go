package ecs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
)

func TestSecretLife(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		c := secretsOf(s)
		arn := create(t, s, "burstlet/a", `{"k":"v"}`, "owner", "n1")
		if again := create(t, s, "burstlet/a", `{"k":"v"}`); again != arn {
			t.Fatalf("the same request made another secret: %s, %s", arn, again)
		}
		if !strings.HasPrefix(arn, "arn:aws:secretsmanager:us-east-1:123456789012:secret:burstlet/a-") ||
			len(arn)-strings.LastIndex(arn, "-") != 7 {
			t.Fatalf("ARN %s", arn)
		}
		_, err := c.CreateSecret(
			t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String("burstlet/a"), SecretString: aws.String("other")},
		)
		if got := code(t, err); got != "ResourceExistsException" {
			t.Fatalf("a name twice: %v", err)
		}
		for _, id := range []string{"burstlet/a", arn, strings.TrimSuffix(arn, arn[len(arn)-7:])} {
			out, err := c.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &id})
			if err != nil || *out.SecretString != `{"k":"v"}` || out.VersionStages[0] != "AWSCURRENT" {
				t.Fatalf("%s: %v, %v", id, out, err)
			}
		}
	})
}

func TestSecretVersions(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		c := secretsOf(s)
		arn := create(t, s, "burstlet/a", `{"k":"v"}`, "owner", "n1")
		if _, err := c.PutSecretValue(
			t.Context(), &secretsmanager.PutSecretValueInput{SecretId: &arn, SecretBinary: []byte{0, 1}},
		); err != nil {
			t.Fatal(err)
		}
		if out, err := c.GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &arn}); err != nil ||
			string(out.SecretBinary) != "\x00\x01" || out.SecretString != nil {
			t.Fatalf("%v, %v", out, err)
		}
		if out, err := c.GetSecretValue(
			t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &arn, VersionStage: aws.String("AWSPREVIOUS")},
		); err != nil || *out.SecretString != `{"k":"v"}` {
			t.Fatalf("%v, %v", out, err)
		}
		d, err := c.DescribeSecret(t.Context(), &secretsmanager.DescribeSecretInput{SecretId: &arn})
		if err != nil || len(d.VersionIdsToStages) != 2 || *d.Tags[0].Value != "n1" || d.CreatedDate == nil {
			t.Fatalf("%v, %v", d, err)
		}
	})
}

func TestSecretRules(t *testing.T) {
	long := strings.Repeat("x", 65537)
	for name, tc := range map[string]struct {
		in   secretsmanager.CreateSecretInput
		want string
	}{
		"64 KiB": {secretsmanager.CreateSecretInput{Name: aws.String("a"), SecretString: aws.String(long[:65536])}, ""},
		"more": {
			secretsmanager.CreateSecretInput{Name: aws.String("a"), SecretString: &long}, "InvalidParameterException",
		},
		"text, binary": {
			secretsmanager.CreateSecretInput{Name: aws.String("a"), SecretString: aws.String("x"), SecretBinary: []byte("x")},
			"InvalidParameterException",
		},
		"name": {
			secretsmanager.CreateSecretInput{Name: aws.String("a b"), SecretString: aws.String("x")}, "ValidationException",
		},
		"token": {secretsmanager.CreateSecretInput{
			Name: aws.String("a"), SecretString: aws.String("x"), ClientRequestToken: aws.String("short"),
		}, "InvalidParameterException"},
		"tag": {
			secretsmanager.CreateSecretInput{
				Name: aws.String("a"), Tags: []smtypes.Tag{{Key: aws.String("aws:x"), Value: aws.String("")}},
			},
			"InvalidParameterException",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := secretsOf(New(Config{})).CreateSecret(t.Context(), &tc.in)
			if got := code(t, err); got != tc.want {
				t.Fatalf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestDeleteSecret(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Erase: time.Minute}}, func(t *testing.T, s *Server) {
		c := secretsOf(s)
		id := aws.String("a")
		force := &secretsmanager.DeleteSecretInput{SecretId: id, ForceDeleteWithoutRecovery: aws.Bool(true)}
		if _, err := c.DeleteSecret(t.Context(), force); err != nil {
			t.Fatalf("one that never was: %v", err)
		}
		first := create(t, s, "a", "x")
		if _, err := c.DeleteSecret(
			t.Context(), &secretsmanager.DeleteSecretInput{SecretId: id, RecoveryWindowInDays: aws.Int64(6)},
		); code(t, err) != "InvalidParameterException" {
			t.Fatalf("six days: %v", err)
		}
		if _, err := c.DeleteSecret(t.Context(), force); err != nil {
			t.Fatal(err)
		}
		_, err := c.CreateSecret(t.Context(), &secretsmanager.CreateSecretInput{Name: id, SecretString: aws.String("y")})
		if got := code(t, err); got != "InvalidRequestException" {
			t.Fatalf("a name whose deletion is under way: %v", err)
		}
		if _, err := c.GetSecretValue(
			t.Context(), &secretsmanager.GetSecretValueInput{SecretId: id},
		); code(t, err) != "InvalidRequestException" {
			t.Fatalf("read while deleted: %v", err)
		}
		wait(time.Minute)
		if _, err := c.GetSecretValue(
			t.Context(), &secretsmanager.GetSecretValueInput{SecretId: id},
		); code(t, err) != "ResourceNotFoundException" {
			t.Fatalf("read when gone: %v", err)
		}
		if second := create(t, s, "a", "x"); second == first {
			t.Fatal("a secret made anew has the old ARN")
		}
		if _, err := c.GetSecretValue(
			t.Context(), &secretsmanager.GetSecretValueInput{SecretId: &first},
		); code(t, err) != "ResourceNotFoundException" {
			t.Fatalf("the old ARN finds the new secret: %v", err)
		}
	})
}

func TestListSecrets(t *testing.T) {
	bothWays(t, Config{Delays: Delays{Listed: time.Minute}}, func(t *testing.T, s *Server) {
		c := secretsOf(s)
		for i := range 7 {
			create(t, s, fmt.Sprint("burstlet/n", i%2, "/", i), "x", "node", fmt.Sprint("n", i%2))
			wait(time.Second)
		}
		list := func(fs ...smtypes.Filter) (names []string) {
			p := secretsmanager.NewListSecretsPaginator(
				c, &secretsmanager.ListSecretsInput{Filters: fs, MaxResults: aws.Int32(2)},
			)
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.SecretList {
					names = append(names, *e.Name)
				}
			}
			return names
		}
		filter := func(key smtypes.FilterNameStringType, values ...string) smtypes.Filter {
			return smtypes.Filter{Key: key, Values: values}
		}
		if got := list(); len(got) != 0 {
			t.Fatalf("listed at once: %v", got)
		}
		wait(time.Minute)
		for want, got := range map[int][]string{
			7: list(),
			4: list(filter("name", "burstlet/n0/")),
			3: list(filter("tag-key", "node"), filter("tag-value", "n1")),
			1: list(filter("name", "burstlet/n0/"), filter("name", "!burstlet/n0/0", "!x"), filter("name", "burstlet/n0/2")),
			0: list(filter("name", "N0")),
		} {
			if len(got) != want {
				t.Errorf("got %v, want %d", got, want)
			}
		}
		if _, err := c.DeleteSecret(t.Context(), &secretsmanager.DeleteSecretInput{
			SecretId: aws.String("burstlet/n0/0"), ForceDeleteWithoutRecovery: aws.Bool(true),
		}); err != nil {
			t.Fatal(err)
		}
		if got := list(); len(got) != 7 {
			t.Fatalf("a deletion shows at once: %v", got)
		}
		wait(time.Minute)
		if got := list(); len(got) != 6 {
			t.Fatalf("a deletion does not show: %v", got)
		}
		_, err := c.ListSecrets(t.Context(), &secretsmanager.ListSecretsInput{Filters: []smtypes.Filter{filter("x", "y")}})
		if got := code(t, err); got != "InvalidParameterException" {
			t.Fatalf("unknown filter: %v", err)
		}
	})
}

func TestTagSecret(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, s *Server) {
		create(t, s, "a", "x", "k", "1")
		c := secretsOf(s)
		if _, err := c.TagResource(t.Context(), &secretsmanager.TagResourceInput{
			SecretId: aws.String("a"), Tags: []smtypes.Tag{{Key: aws.String("k"), Value: aws.String("2")}},
		}); err != nil {
			t.Fatal(err)
		}
		if got := s.Secrets(); len(got) != 1 || got[0].Tags["k"] != "2" || got[0].Bytes != 1 {
			t.Fatalf("%+v", got)
		}
		if _, err := c.UntagResource(
			t.Context(), &secretsmanager.UntagResourceInput{SecretId: aws.String("a"), TagKeys: []string{"k"}},
		); err != nil {
			t.Fatal(err)
		}
		if got := s.Secrets(); len(got[0].Tags) != 0 {
			t.Fatalf("%+v", got)
		}
	})
}

// Versions are kept for a day, and about a hundred are taken; older ones go when others come.
func TestVersionQuota(t *testing.T) {
	world(t, Config{}, func(t *testing.T, s *Server) {
		c := secretsOf(s)
		if _, err := c.CreateSecret(
			t.Context(), &secretsmanager.CreateSecretInput{Name: aws.String("a"), SecretString: aws.String("x")},
		); err != nil {
			t.Fatal(err)
		}
		put := func(n int) error {
			_, err := c.PutSecretValue(t.Context(), &secretsmanager.PutSecretValueInput{
				SecretId: aws.String("a"), SecretString: aws.String(fmt.Sprint(n)),
			})
			return err
		}
		for n := range 99 {
			if err := put(n); err != nil {
				t.Fatalf("version %d: %v", n+2, err)
			}
			wait(10 * time.Minute)
		}
		var limit *smtypes.LimitExceededException
		if err := put(100); !errors.As(err, &limit) {
			t.Fatalf("one too many: %v", err)
		}
		wait(8 * time.Hour) // the first are a day old
		for n := range 40 {
			if err := put(200 + n); err != nil {
				t.Fatalf("a day later, %d: %v", n, err)
			}
			wait(10 * time.Minute)
		}
		if got := len(s.Secrets()[0].Written); got > 101 {
			t.Errorf("%d versions are kept", got)
		}
	})
}
