// Verify and sign with the official package in Java; scripts/interop_signatures.py writes and reads the lines.
import com.standardwebhooks.Webhook;
import com.standardwebhooks.exceptions.WebhookVerificationException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;

public class Verify {
  public static void main(String[] arguments) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] words = line.split(" ");
      String body = text(words[3]);
      var webhook = new Webhook(words[0]);
      boolean accepted = true;
      try {
        webhook.verify(
            body,
            Map.of(
                "webhook-id", List.of(words[1]),
                "webhook-timestamp", List.of(words[2]),
                "webhook-signature", List.of(text(words[4]))));
      } catch (WebhookVerificationException refused) {
        accepted = false;
      }
      System.out.println(accepted + " " + webhook.sign(words[1], Long.parseLong(words[2]), body));
    }
  }

  private static String text(String encoded) {
    return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
  }
}
