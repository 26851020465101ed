// Verify and sign with the official package in Go; scripts/interop_signatures.py writes and reads the lines.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		body, err := base64.StdEncoding.DecodeString(words[3])
		check(err)
		signature, err := base64.StdEncoding.DecodeString(words[4])
		check(err)
		seconds, err := strconv.ParseInt(words[2], 10, 64)
		check(err)
		webhook, err := standardwebhooks.NewWebhook(words[0])
		check(err)
		headers := http.Header{}
		headers.Set("webhook-id", words[1])
		headers.Set("webhook-timestamp", words[2])
		headers.Set("webhook-signature", string(signature))
		refused := webhook.Verify(body, headers)
		signed, err := webhook.Sign(words[1], time.Unix(seconds, 0), body)
		check(err)
		fmt.Println(refused == nil, signed)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
