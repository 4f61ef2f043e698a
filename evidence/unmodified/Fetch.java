import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Fetches twice over one connection and prints how long the second took. */
public class Fetch {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        var request = HttpRequest.newBuilder(URI.create(args[0])).build();
        client.send(request, BodyHandlers.ofString());
        long began = System.nanoTime();
        String text = client.send(request, BodyHandlers.ofString()).body();
        System.out.printf("java: %s, %.1f ms%n", text.trim(), (System.nanoTime() - began) / 1e6);
        System.exit(0);
    }
}
