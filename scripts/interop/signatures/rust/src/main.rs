//! Verify and sign with the official crate; scripts/interop_signatures.py writes and reads the lines.
use base64::{engine::general_purpose::STANDARD, Engine};
use http::{HeaderMap, HeaderValue};
use standardwebhooks::Webhook;

fn main() {
    for line in std::io::stdin().lines().map(|line| line.unwrap()) {
        let words: Vec<&str> = line.split(' ').collect();
        let body = STANDARD.decode(words[3]).unwrap();
        let webhook = Webhook::new(words[0]).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", HeaderValue::from_str(words[1]).unwrap());
        headers.insert("webhook-timestamp", HeaderValue::from_str(words[2]).unwrap());
        let signature = STANDARD.decode(words[4]).unwrap();
        headers.insert("webhook-signature", HeaderValue::from_bytes(&signature).unwrap());
        let accepted = webhook.verify(&body, &headers).is_ok();
        let signed = webhook.sign(words[1], words[2].parse().unwrap(), &body).unwrap();
        println!("{accepted} {signed}");
    }
}
