// Task files as items. The oracle is lm-eval: tests/data/tasks/make_expected.py wrote what it asks a model.
#include "tasks/task.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace task_test {

const std::filesystem::path kFolder = TANDEM_SOURCE_DIR "/tests/data/tasks";

Json expected() {
  const auto text = read_text_file(kFolder / "expected.json", 1 << 24);
  EXPECT_TRUE(text.ok());
  return parse_json(*text, "expected.json").value();
}

std::string error_of(std::string_view task, std::string_view contents, const char* file = "file.jsonl") {
  const auto read = parse_task(task, contents, file, 0);
  return read.ok() ? "" : read.error().message;
}

TEST(Task, AsksWhatLmEvalAsks) {
  const Json json = expected();
  size_t compared = 0;
  for (const auto& [file, items] : json["requests"].items()) {
    SCOPED_TRACE(file);
    const std::string name = std::filesystem::path(file).stem().string();
    const auto task = read_task(name, kFolder / file, 0);
    ASSERT_TRUE(task.ok()) << task.error().message;
    for (size_t i = 0; i < items.size(); ++i) {
      if (task->items.empty()) {
        ASSERT_LT(i, task->documents.size());
        EXPECT_EQ(task->documents[i].text, items[i][0][0].get<std::string>());
      } else {
        ASSERT_EQ(task->items[i].choices.size(), items[i].size());
        for (size_t c = 0; c < items[i].size(); ++c) {
          EXPECT_EQ(task->items[i].choices[c].context, items[i][c][0].get<std::string>());
          EXPECT_EQ(task->items[i].choices[c].continuation, items[i][c][1].get<std::string>());
        }
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 5u * 6 + 3 + 3 + 6);
}

TEST(Task, ReadsSoManyItemsAndIdentifiesTheWholeFile) {
  const auto all = read_task("arc_easy", kFolder / "arc_easy.jsonl", 0);
  const auto some = read_task("arc_easy", kFolder / "arc_easy.jsonl", 5);
  ASSERT_TRUE(all.ok() && some.ok());
  EXPECT_EQ(all->items.size(), 24u);
  EXPECT_EQ(some->items.size(), 5u);
  EXPECT_EQ(some->hash, all->hash);
  EXPECT_EQ(all->hash, hash_bytes(MappedFile::open(kFolder / "arc_easy.jsonl")->bytes()));
  EXPECT_EQ(all->source, "arc_easy.jsonl");
  EXPECT_EQ(read_task("wikitext", kFolder / "wikitext.raw", 2)->documents.size(), 2u);
  EXPECT_EQ(read_task("wikitext", kFolder / "wikitext.raw", 0)->documents.size(), 3u);
  EXPECT_EQ(read_task("text", kFolder / "wikitext.raw", 0)->documents.size(), 1u);
}

TEST(Task, TextsToCalibrateWithHaveTheRightAnswer) {
  const auto task = parse_task("piqa", "\n{\"goal\":\"G\",\"sol1\":\"no\",\"sol2\":\"yes\",\"label\":1}\r\n", "x", 0);
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_EQ(task_texts(*task), std::vector<std::string>{"Question: G\nAnswer: yes"});
  const auto text = parse_task("text", "a b", "x.txt", 0);
  EXPECT_EQ(task_texts(*text), std::vector<std::string>{"a b"});
}

TEST(Task, CountsTheWordsAndBytesOfTheOriginal) {
  // What lm-eval's wikitext_detokenizer() and process_results() give. U+00A0 is white space.
  const auto task = parse_task("wikitext", "{\"page\": \" caf\u00e9 , \u00a0x\\n @-@ y \"}", "x.jsonl", 0);
  ASSERT_TRUE(task.ok()) << task.error().message;
  EXPECT_EQ(task->documents[0].words, 7);
  EXPECT_EQ(task->documents[0].bytes, 20);
  EXPECT_EQ(task->documents[0].text, " caf\u00e9, \u00a0x\n-y ");
}

TEST(Task, ErrorsNameTheLineAndWhatIsWrong) {
  const std::string good = R"({"goal":"G","sol1":"a","sol2":"b","label":0})";
  EXPECT_NE(error_of("piqa", good + "\n{\"goal\":\"G\"}").find("file.jsonl, line 2"), std::string::npos);
  EXPECT_NE(error_of("piqa", good + "\n{\"goal\":\"G\"}").find("\"sol1\""), std::string::npos);
  EXPECT_NE(error_of("piqa", good + "\n\n{broken").find("line 3"), std::string::npos);
  EXPECT_NE(error_of("piqa", "[1]").find("one object a line"), std::string::npos);
  EXPECT_NE(error_of("piqa", "").find("nothing in it"), std::string::npos);
  EXPECT_NE(error_of("other", good).find("there are hellaswag"), std::string::npos);
  for (const char* label : {"2", "-1", "-9223372036854775808", "18446744073709551615", "\"7\"", "1.5", "[]"}) {
    const std::string line = std::string(R"({"goal":"G","sol1":"a","sol2":"b","label":)") + label + "}";
    EXPECT_NE(error_of("piqa", line).find("from 0 to 1"), std::string::npos) << label;
  }
  EXPECT_NE(error_of("piqa", R"({"goal":"G","sol1":"a","sol2":"b","label":""})").find("a split that has answers"),
            std::string::npos);
  EXPECT_NE(error_of("winogrande", R"({"sentence":"x","option1":"a","option2":"b","answer":"1"})").find("no blank"),
            std::string::npos);
  EXPECT_NE(error_of("mmlu", R"({"question":"x","choices":["a","b","c"],"answer":1})").find("3 entries"),
            std::string::npos);
  EXPECT_NE(error_of("arc_easy", R"({"question":"x","choices":{"text":["a","b"],"label":["A","B"]},"answerKey":"C"})")
                .find("not a label"),
            std::string::npos);
  EXPECT_NE(error_of("text", "{\"body\":\"x\"}").find("neither"), std::string::npos);
  EXPECT_NE(error_of("text", "a\xff", "x.txt").find("UTF-8"), std::string::npos);
}

}  // namespace task_test
}  // namespace tandem
